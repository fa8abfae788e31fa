//! What goes on beside requests: gauges and readiness.

use crate::store::{self, schema};
use crate::submit::Events;
use crate::writes::Writes;
use common::db::Database;
use common::health::Health;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// Readiness: Postgres answers and has the schema.
pub const POSTGRES: &str = "postgres";
/// Readiness: batches and records writes can be published.
pub const BROKER: &str = "broker";
/// Readiness: connections are accepted. Not so while draining.
pub const ACCEPTING: &str = "accepting";

/// How often they are brought up to date.
const EVERY: Duration = Duration::from_millis(500);
/// How long Postgres may take to say that it is there.
const POSTGRES_WITHIN: Duration = Duration::from_secs(1);

/// Sets the pools' gauges, for as long as the program lives.
pub async fn observe_pools(pools: Vec<Database>) {
    let mut next = interval(EVERY);
    loop {
        next.tick().await;
        Database::observe(&pools);
    }
}

/// Keeps readiness true, for as long as the program lives.
pub async fn watch_readiness(db: Database, events: Events, writes: Writes, health: Health) {
    let mut next = interval(EVERY);
    next.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        next.tick().await;
        health.set(BROKER, events.is_ready() && writes.is_ready());
        let deadline = Instant::now() + POSTGRES_WITHIN;
        let is_there = store::ask(&db, deadline, schema::is_there).await;
        health.set(POSTGRES, is_there.unwrap_or(false));
    }
}
