//! Notifies the dispatcher once outbound events are committed.
//!
//! The notification is sent outside the transaction that wrote the events, because NOTIFY in a transaction makes commits
//! wait for each other. A lost notification only costs time: the dispatcher polls as well.

use common::db::{Database, TxError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::sleep;

/// Shortest time between two notifications. One notification covers all commits of that time.
const MIN_INTERVAL: Duration = Duration::from_millis(2);
const NOTIFY: &str = "SELECT pg_notify('connect_outbox', '')";

/// Notifies the dispatcher of outbound events. Clones share one background task.
#[derive(Clone, Debug)]
pub(crate) struct OutboxNotifier(Arc<Notify>);

impl OutboxNotifier {
    /// Notifies through `database`, a pool whose commits need not wait for the disk.
    pub(crate) fn start(database: Database) -> Self {
        let notifier = Self(Arc::new(Notify::new()));
        tokio::spawn(run(database, Arc::clone(&notifier.0)));
        notifier
    }

    /// Requests a notification. Call it after a transaction that emitted events has committed.
    pub(crate) fn notify(&self) {
        self.0.notify_one();
    }
}

async fn run(database: Database, requested: Arc<Notify>) {
    loop {
        requested.notified().await;
        if let Err(error) = notify(&database).await {
            tracing::debug!(%error, "the dispatcher could not be notified of outbound events; it finds them by polling");
        }
        sleep(MIN_INTERVAL).await;
    }
}

async fn notify(database: &Database) -> Result<(), TxError> {
    database.query(NOTIFY, &[]).await.map(drop)
}
