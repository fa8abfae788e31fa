//! An upgrade under load, by the upgrade notes in CHANGELOG.md: a schema migration while the programs of the previous release run,
//! then one copy of each program, both releases side by side, and the other copies.

use super::plan::PROGRAMS;
use super::stack::{Release, Stack};
use crate::roles::ROLE_PREFIX;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The phases of an upgrade, which take the same time: the previous release, with the new schema, side by side, only current
/// programs that accept the messages of the previous release, and the current release.
const PHASES: u32 = 5;

/// Upgrades all programs within `length`.
pub(super) async fn run(stack: &Stack, length: Duration) {
    let phase = length / PHASES;
    sleep(phase).await;
    let begun = Instant::now();
    stack.connectctl.json(&["migrate", "--roles", "--role-prefix", ROLE_PREFIX]).await;
    println!("  migrated in {} ms, while the previous release runs", begun.elapsed().as_millis());
    sleep(phase).await;
    replace(stack, |slot| slot % 2 == 0, &Release::Upgrading).await;
    println!("  one copy of each program is current");
    sleep(phase).await;
    replace(stack, |slot| slot % 2 == 1, &Release::Upgrading).await;
    println!("  all programs are current");
    stack.connectctl.json(&["subscription", "seal-urls"]).await;
    stack.connectctl.json(&["secrets", "rotate"]).await;
    // Retries of deliveries that the previous release has published wait in queues for two seconds at most.
    sleep(phase).await;
    replace(stack, |_| true, &Release::Current).await;
    println!("  messages of the previous release are no longer accepted");
}

async fn replace(stack: &Stack, is_chosen: impl Fn(usize) -> bool, release: &Release) {
    for slot in (0..PROGRAMS.len()).filter(|slot| is_chosen(*slot)) {
        stack.replace_program(slot, release.clone()).await;
    }
}
