//! Notifies the dispatcher once outbound events are committed.
//!
//! By a notification outside the transaction that wrote them: inside one it would make commits wait for each other. It
//! only saves time: the dispatcher polls as well.

use common::db::{Database, TxError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::sleep;

/// Shortest time between two notifications: one stands for everything that is committed meanwhile.
const GAP: Duration = Duration::from_millis(2);
const NOTIFY: &str = "SELECT pg_notify('connect_outbox', '')";

/// Tells the dispatcher that there are outbound events; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct OutboxNotifier(Arc<Notify>);

impl OutboxNotifier {
    /// Notifies through `database`, which need not be durable.
    pub(crate) fn start(database: Database) -> Self {
        let notifier = Self(Arc::new(Notify::new()));
        tokio::spawn(run(database, Arc::clone(&notifier.0)));
        notifier
    }

    /// To be called when a transaction that emitted events has committed.
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
        sleep(GAP).await;
    }
}

async fn notify(database: &Database) -> Result<(), TxError> {
    let client = database.client().await?;
    client.execute(&client.prepare_cached(NOTIFY).await?, &[]).await?;
    Ok(())
}
