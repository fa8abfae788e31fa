//! Waking the dispatcher once outbound events are committed.
//!
//! By a notification outside the transaction that wrote them: inside one it would make commits wait for each other. It
//! only saves time: the dispatcher looks by itself as well.

use common::db::{Database, TxError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::sleep;

/// The least time between two notifications: what is committed meanwhile is told together.
const GAP: Duration = Duration::from_millis(2);
const RING: &str = "SELECT pg_notify('connect_outbox', '')";

/// Whether a transaction wrote to the outbox.
#[derive(Debug, Default)]
pub struct Emitted(AtomicBool);

impl Emitted {
    /// It did.
    pub fn mark(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Rings for the dispatcher; cheap to clone.
#[derive(Clone, Debug)]
pub struct Bell(Arc<Notify>);

impl Bell {
    /// Rings through `database`, which needn't be durable.
    pub fn start(database: Database) -> Self {
        let bell = Self(Arc::new(Notify::new()));
        tokio::spawn(ring(database, Arc::clone(&bell.0)));
        bell
    }

    /// To be called when a transaction has committed.
    pub fn after(&self, emitted: &Emitted) {
        if emitted.0.load(Ordering::Relaxed) {
            self.0.notify_one();
        }
    }
}

async fn ring(database: Database, called: Arc<Notify>) {
    loop {
        called.notified().await;
        if let Err(error) = notify(&database).await {
            tracing::debug!(%error, "the dispatcher can't be woken; it looks by itself");
        }
        sleep(GAP).await;
    }
}

async fn notify(database: &Database) -> Result<(), TxError> {
    let client = database.client().await?;
    client.execute(&client.prepare_cached(RING).await?, &[]).await?;
    Ok(())
}
