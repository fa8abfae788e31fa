//! The partitions of `replay_entries`.

use common::db::TxError;
use deadpool_postgres::Transaction;

/// Keeps two ingests from making or dropping partitions at the same time; any number will do.
const LOCK: i64 = 0x636f_6e6e_6563_7402;

/// Names of the partitions there are.
pub const LIST: &str = "-- replay_partitions.list
    SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'replay_entries'::regclass";

/// Makes a partition. A function of the schema's owner does it, so that ingest needs no right to change the schema.
pub const CREATE: &str = "-- replay_partitions.create
    SELECT make_replay_partition($1)";

/// Drops a partition, likewise.
pub const DROP: &str = "-- replay_partitions.drop
    SELECT drop_replay_partition($1)";

const PREFIX: &str = "replay_entries_";

/// Waits for its turn, for at most the transaction's lock timeout, which is set here: a statement that waits for a
/// lock makes all that come after it wait, too, so it must give up soon and come back later.
pub async fn lock(tx: &Transaction<'_>) -> Result<(), TxError> {
    tx.batch_execute("SET LOCAL lock_timeout = '100ms'").await?;
    tx.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    Ok(())
}

/// The start of each partition, in seconds since the epoch.
pub async fn list(tx: &Transaction<'_>) -> Result<Vec<i64>, TxError> {
    let rows = tx.query(LIST, &[]).await?;
    let names = rows.iter().map(|row| row.try_get::<_, &str>(0)).collect::<Result<Vec<_>, _>>()?;
    Ok(names.into_iter().filter_map(|name| name.strip_prefix(PREFIX)?.parse().ok()).collect())
}

/// Makes the ten minutes' partition that starts at `start`, in seconds since the epoch.
pub async fn create(tx: &Transaction<'_>, start: i64) -> Result<(), TxError> {
    tx.execute(CREATE, &[&start]).await?;
    Ok(())
}

/// Drops the partition that starts at `start`.
pub async fn drop(tx: &Transaction<'_>, start: i64) -> Result<(), TxError> {
    tx.execute(DROP, &[&start]).await?;
    Ok(())
}
