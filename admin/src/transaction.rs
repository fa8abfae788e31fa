//! Transactions of operations, repeated after conflicts.

use crate::AdminError;
use common::db;
use tokio_postgres::{Client, Transaction};

/// Runs `work` in a transaction and commits it. `work` may run several times, after conflicts with other transactions, so it
/// must not have effects outside the transaction.
pub(crate) async fn transact<T>(
    client: &mut Client,
    work: impl AsyncFn(&Transaction<'_>) -> Result<T, AdminError>,
) -> Result<T, AdminError> {
    db::transact("operation", client, work, AdminError::database_error).await
}
