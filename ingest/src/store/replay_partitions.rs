//! The partitions of `replay_entries`.

use common::db::TxError;
use deadpool_postgres::Transaction;

/// The advisory lock under which partitions are created and dropped; the number is arbitrary.
const LOCK: i64 = 0x636f_6e6e_6563_7402;

common::statements! {
    /// The names of the existing partitions.
    const LIST = "-- replay_partitions.list
    SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'replay_entries'::regclass";

    /// Creates a partition by a function of the schema's owner, so that ingest needs no privilege to change the schema.
    const CREATE = "-- replay_partitions.create
    SELECT make_replay_partition($1)";

    /// Drops a partition, likewise.
    const DROP = "-- replay_partitions.drop
    SELECT drop_replay_partition($1)";
}

const PREFIX: &str = "replay_entries_";

/// Waits for the advisory lock, with a short lock timeout for the whole transaction: a statement that waits for a lock
/// blocks all later statements on the table, so it must time out soon and be retried later.
pub(crate) async fn lock(tx: &Transaction<'_>) -> Result<(), TxError> {
    tx.batch_execute("SET LOCAL lock_timeout = '100ms'").await?;
    tx.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    Ok(())
}

/// The start of each partition, in seconds since the epoch.
pub(crate) async fn list(tx: &Transaction<'_>) -> Result<Vec<i64>, TxError> {
    let rows = tx.query(&super::prepared(tx, LIST).await?, &[]).await?;
    let names = rows.iter().map(|row| row.try_get::<_, &str>(0)).collect::<Result<Vec<_>, _>>()?;
    Ok(names.into_iter().filter_map(|name| name.strip_prefix(PREFIX)?.parse().ok()).collect())
}

/// Creates the ten-minute partition that starts at `start`, in seconds since the epoch.
pub(crate) async fn create(tx: &Transaction<'_>, start: i64) -> Result<(), TxError> {
    tx.execute(&super::prepared(tx, CREATE).await?, &[&start]).await?;
    Ok(())
}

/// Drops the partition that starts at `start`.
pub(crate) async fn drop(tx: &Transaction<'_>, start: i64) -> Result<(), TxError> {
    tx.execute(&super::prepared(tx, DROP).await?, &[&start]).await?;
    Ok(())
}
