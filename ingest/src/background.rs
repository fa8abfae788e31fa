//! What goes on beside requests: gauges and readiness.

use crate::store::{self, replay_entries, schema};
use crate::submit::Events;
use crate::writes::Writes;
use common::db::{Client, Database, is_verified, verify_master_key};
use common::health::Health;
use common::sealed::MasterKey;
use std::hint::black_box;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// Readiness: Postgres answers and has the schema.
pub const POSTGRES: &str = "postgres";
/// Readiness: used signatures can be written, and the next partitions for them made.
pub const REPLAY_STORE: &str = "replay_store";
/// Readiness: the master key is the one that the database was set up with.
pub const MASTER_KEY: &str = "master_key";
/// Readiness: batches and records writes can be published.
pub const BROKER: &str = "broker";
/// Readiness: connections are accepted. Not so while draining.
pub const ACCEPTING: &str = "accepting";

/// How often they are brought up to date.
const EVERY: Duration = Duration::from_millis(500);
/// How long Postgres may take to say that it is there.
const POSTGRES_WITHIN: Duration = Duration::from_secs(1);

/// How often the allocator is made to give freed memory back.
const RETURN_EVERY: Duration = Duration::from_secs(1);
/// More than mimalloc serves from the pages of a thread: such a block is taken from an arena and given back to it.
const ARENA_BLOCK: usize = 1 << 20;

/// Has memory that bodies have freed returned to the system, for as long as the program lives.
///
/// mimalloc returns what has been free for a while only when something is next given back to an arena. After a burst of
/// large bodies an idle ingest would keep its memory until the next one. The block is never touched, so it costs no memory.
pub async fn return_freed_memory() {
    let mut next = interval(RETURN_EVERY);
    next.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        next.tick().await;
        drop(black_box(Vec::<u8>::with_capacity(ARENA_BLOCK)));
    }
}

/// Sets the pools' gauges, for as long as the program lives.
pub async fn observe_pools(pools: Vec<Database>) {
    let mut next = interval(EVERY);
    loop {
        next.tick().await;
        Database::observe(&pools);
    }
}

/// Keeps readiness true, for as long as the program lives.
pub async fn watch_readiness(
    db: Database,
    master: MasterKey,
    events: Events,
    writes: Writes,
    health: Health,
) {
    let mut next = interval(EVERY);
    next.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        next.tick().await;
        health.set(BROKER, events.is_ready() && writes.is_ready());
        let deadline = Instant::now() + POSTGRES_WITHIN;
        let is_there = store::ask(&db, deadline, schema::is_there).await.unwrap_or(false);
        health.set(POSTGRES, is_there);
        let deadline = Instant::now() + POSTGRES_WITHIN;
        let is_writable = store::ask(&db, deadline, replay_entries::check).await.unwrap_or(false);
        health.set(REPLAY_STORE, is_there && is_writable);
        let deadline = Instant::now() + POSTGRES_WITHIN;
        let verify = async |client: &Client| verify_master_key(client, &master).await;
        health.set(MASTER_KEY, is_there && is_verified(store::ask(&db, deadline, verify).await));
    }
}
