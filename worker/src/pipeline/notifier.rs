//! Notifies the dispatchers once outbound events are committed, and names the slots of their tenants.
//!
//! The notification is sent outside the transaction that wrote the events, because NOTIFY in a transaction makes commits
//! wait for each other. A lost notification only costs time: the dispatchers poll as well.

use common::db::{Database, TxError};
use common::model::TenantId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::sleep;

/// Shortest time between two notifications. One notification covers all commits of that time.
const MIN_INTERVAL: Duration = Duration::from_millis(2);
const NOTIFY: &str = "SELECT pg_notify('connect_outbox', $1)";

/// Notifies the dispatchers of outbound events. Clones share one background task.
#[derive(Clone, Debug)]
pub(crate) struct OutboxNotifier(Arc<Request>);

#[derive(Debug, Default)]
struct Request {
    /// Bits of slots.
    slots: AtomicU64,
    requested: Notify,
}

impl OutboxNotifier {
    /// Notifies through `database`, a pool whose commits need not wait for the disk.
    pub(crate) fn start(database: Database) -> Self {
        let notifier = Self(Arc::default());
        tokio::spawn(run(database, Arc::clone(&notifier.0)));
        notifier
    }

    /// Requests a notification of events of these tenants, which are committed.
    pub(crate) fn notify(&self, tenants: &[TenantId]) {
        let slots = tenants.iter().fold(0, |slots, tenant| slots | 1 << tenant.slot());
        self.0.slots.fetch_or(slots, Ordering::Relaxed);
        self.0.requested.notify_one();
    }
}

async fn run(database: Database, request: Arc<Request>) {
    loop {
        request.requested.notified().await;
        let slots = request.slots.swap(0, Ordering::Relaxed);
        if let Err(error) = notify(&database, slots).await {
            tracing::debug!(%error, "the dispatchers could not be notified of outbound events; they find them by polling");
        }
        sleep(MIN_INTERVAL).await;
    }
}

async fn notify(database: &Database, slots: u64) -> Result<(), TxError> {
    database.query(NOTIFY, &[&slots.to_string()]).await.map(drop)
}
