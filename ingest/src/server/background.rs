//! Background tasks: gauges and readiness.

use crate::auth::Keys;
use crate::publish::QueuePublisher;
use crate::store::{self, replay_entries};
use common::db::{Client, Database, is_verified, verify_master_key};
use common::health::Health;
use common::periodic::ticks;
use common::sealed::MasterKeys;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Readiness: Postgres responds and accepts writes, and the API keys are loaded from its tables and current.
pub(super) const POSTGRES: &str = "postgres";
/// Readiness: replay entries can be written, and their next partitions can be created.
pub(super) const REPLAY_STORE: &str = "replay_store";
/// Readiness: the master key matches the database's canary.
pub(super) const MASTER_KEY: &str = "master_key";
/// Readiness: batches and records writes can be published.
pub(super) const BROKER: &str = "broker";

/// How often gauges and readiness are updated.
const EVERY: Duration = Duration::from_millis(500);
/// How long Postgres may take to respond to a readiness check.
const POSTGRES_WITHIN: Duration = Duration::from_secs(1);

/// Sets the pools' gauges, until the program ends.
pub(super) async fn observe_pools(pools: Vec<Database>) {
    let mut ticks = ticks(EVERY);
    loop {
        ticks.tick().await;
        Database::observe(&pools);
    }
}

/// Updates readiness, until the program ends.
pub(super) async fn watch_readiness(
    db: Database, masters: MasterKeys, keys: Arc<Keys>, queues: [QueuePublisher; 2], health: Health,
) {
    let mut ticks = ticks(EVERY);
    loop {
        ticks.tick().await;
        health.set(BROKER, queues.iter().all(QueuePublisher::is_ready));
        // A demoted server still serves look-ups of keys and records, but with an outdated state.
        let is_usable = db.is_writable(POSTGRES_WITHIN).await;
        health.set(POSTGRES, is_usable && keys.are_current());
        let deadline = Instant::now() + POSTGRES_WITHIN;
        let is_writable = store::run_until(&db, deadline, replay_entries::check).await.unwrap_or(false);
        health.set(REPLAY_STORE, is_usable && is_writable);
        let deadline = Instant::now() + POSTGRES_WITHIN;
        let verify = async |client: &Client| verify_master_key(client, &masters).await;
        let verified = store::run_until(&db, deadline, verify).await;
        health.set(MASTER_KEY, is_usable && is_verified(verified, &masters));
    }
}
