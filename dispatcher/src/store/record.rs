//! The record of what has become of deliveries: one transaction in one round trip.

use super::{AttemptRow, Conclusion, attempts, deliveries, outbox};
use chrono::{DateTime, Utc};
use common::db::{Database, TxError};
use common::metrics::TRANSACTIONS;
use deadpool_postgres::GenericClient;
use futures_util::join;
use uuid::Uuid;

/// What one transaction writes.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Deliveries, sorted by agency and id, each once.
    pub conclusions: &'a [&'a Conclusion],
    /// Attempts at them, in the same order.
    pub attempts: &'a [AttemptRow],
    /// Events of the outbox whose deliveries are all on record with this.
    pub relayed: &'a [Uuid],
    /// Now.
    pub now: DateTime<Utc>,
}

impl Record<'_> {
    /// Writes it. Once this is polled everything is on its way, the COMMIT included; dropping it takes nothing back.
    pub async fn write(&self, database: &Database) -> Result<(), TxError> {
        let written = self.flight(database).await;
        let outcome = written.as_ref().map_or_else(TxError::outcome, |()| "committed");
        metrics::counter!(TRANSACTIONS, "name" => "conclude", "outcome" => outcome).increment(1);
        written
    }

    async fn flight(&self, database: &Database) -> Result<(), TxError> {
        let client = database.client().await?;
        if self.conclusions.is_empty() {
            return outbox::relayed(&client, self.relayed, self.now).await;
        }
        // What isn't prepared yet on this connection would be overtaken by what is.
        for sql in [deliveries::CONCLUDE, attempts::INSERT, outbox::RELAYED] {
            client.prepare_cached(sql).await?;
        }
        // Sent in this order without waiting. When a statement fails those after it fail, too, and COMMIT rolls back.
        let (begun, concluded, attempted, relayed, committed) = join!(
            client.batch_execute("BEGIN"),
            deliveries::conclude(&client, self.conclusions, self.now),
            attempts::insert(&client, self.attempts),
            self.relay(&client),
            client.batch_execute("COMMIT"),
        );
        begun?;
        concluded?;
        attempted?;
        relayed?;
        Ok(committed?)
    }

    async fn relay(&self, client: &impl GenericClient) -> Result<(), TxError> {
        if self.relayed.is_empty() {
            return Ok(());
        }
        outbox::relayed(client, self.relayed, self.now).await
    }
}
