//! Records outcomes of deliveries: one transaction in one round trip.

use super::{AttemptRow, DeliveryRow, attempts, deliveries, outbox};
use chrono::{DateTime, Utc};
use common::db::{Database, RetryableTransaction, TxError};
use uuid::Uuid;

/// The rows that one transaction writes.
#[derive(Clone, Debug)]
pub(crate) struct RecordTransaction<'a> {
    /// Deliveries, sorted by tenant and id, each once.
    pub delivery_rows: &'a [&'a DeliveryRow],
    /// Attempts at them, in the same order.
    pub attempts: &'a [AttemptRow],
    /// Events whose deliveries are all recorded with this transaction.
    pub relayed: &'a [Uuid],
    /// The creation time of new deliveries, and of the relay marks.
    pub now: DateTime<Utc>,
}

impl RecordTransaction<'_> {
    /// Writes the rows. Retries after a conflict with another transaction.
    pub(crate) async fn write(&self, database: &Database) -> Result<(), TxError> {
        database.run_attempts("record", self).await
    }
}

impl RetryableTransaction for RecordTransaction<'_> {
    type Output = ();

    async fn attempt(&self, database: &Database, _attempt: u32) -> Result<(), TxError> {
        if self.delivery_rows.is_empty() {
            // One statement is a transaction by itself.
            return outbox::mark_relayed(&database.client().await?, self.relayed, self.now).await;
        }
        let mut queries = vec![deliveries::record(self.delivery_rows, self.attempts, self.now)];
        if !self.attempts.is_empty() {
            queries.push(attempts::insert(self.attempts));
        }
        if !self.relayed.is_empty() {
            queries.push(outbox::mark_relayed_query(self.relayed, self.now));
        }
        database.pipelined().await?.commit(&queries).await
    }
}
