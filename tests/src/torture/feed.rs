//! The reader of the feed of one subscription. What the feed shows is compared, instead of what the receiver gets.

use super::caller::{Caller, Retries};
use super::oracle::Run;
use super::stack::Stack;
use super::webhooks::Subscribed;
use crate::key::RECORDS;

/// The number of this caller, and the tenant whose key reads the feed of its subscription.
const CALLER: u64 = 1_000;
const TENANT: usize = 0;

/// Whether it is the subscription whose feed is read.
pub(super) fn is_read(subscribed: &Subscribed) -> bool {
    subscribed.tenant == TENANT && subscribed.key.is_some()
}

/// Waits for deliveries and reads them until the run is over.
pub(super) async fn run(stack: &Stack, run: &Run) {
    let (mut caller, mut operation) = (Caller::new(stack, run, CALLER), 0);
    while !run.load_ended() {
        read(&mut caller, operation, 2).await;
        operation += 1;
    }
}

/// Reads the rest, once nothing is added any more.
pub(super) async fn read_to_the_end(stack: &Stack, run: &Run) {
    let mut caller = Caller::new(stack, run, CALLER + 1);
    let mut operation = 0;
    while read(&mut caller, operation, 0).await > 0 {
        operation += 1;
    }
}

/// Reads a page, and returns how many deliveries it has. The numbers must follow those that were read.
async fn read(caller: &mut Caller<'_>, operation: u64, wait: u32) -> usize {
    let (key, after) = (&caller.stack.keys[TENANT], caller.run.oracle().feed.len());
    let nonce = caller.number * 1_000_000 + operation;
    let target = format!("{RECORDS}/webhooks?after={after}&limit=40&wait={wait}&nonce={nonce}");
    let (request, random) = (|| key.records("GET", &target, ""), &mut caller.random(operation));
    let Some(response) = caller.send(random, Retries::UntilConfirmed, request).await else { return 0 };
    if response.status != 200 {
        caller.unexpected("GET /webhooks", &response);
        return 0;
    }
    let page = response.json();
    let deliveries = page["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut oracle = caller.run.oracle();
    for delivery in deliveries {
        if delivery["number"] != oracle.feed.len() + 1 {
            let what = format!("the feed shows {delivery} after {} deliveries", oracle.feed.len());
            oracle.add_violation(what);
        }
        oracle.feed.push(delivery["envelope"].clone());
    }
    deliveries.len()
}
