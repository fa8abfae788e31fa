//! The partitions of `replay_entries`.

use common::db::TxError;
use deadpool_postgres::Transaction;

/// Keeps two ingests from making or dropping partitions at the same time; any number will do.
const LOCK: i64 = 0x636f_6e6e_6563_7402;

/// Names of the partitions there are.
pub const LIST: &str = "-- replay_partitions.list
    SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'replay_entries'::regclass";

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

/// Makes the partition that starts at `start` and ends before `end`, both in seconds since the epoch.
///
/// Made apart and attached, because attaching lets inserts go on, where `PARTITION OF` would stop them. Without
/// autovacuum: it is dropped before vacuuming it could pay, and must not be held by it then.
pub async fn create(tx: &Transaction<'_>, start: i64, end: i64) -> Result<(), TxError> {
    let name = name(start);
    let statements = format!(
        "-- replay_partitions.create
        CREATE TABLE {name} (LIKE replay_entries INCLUDING DEFAULTS INCLUDING INDEXES) WITH (autovacuum_enabled = false);
        ALTER TABLE replay_entries ATTACH PARTITION {name} FOR VALUES FROM (to_timestamp({start})) TO (to_timestamp({end}))"
    );
    Ok(tx.batch_execute(&statements).await?)
}

/// Drops the partition that starts at `start`.
///
/// Takes the partition's own lock first: whoever still holds that one, inserts into the others don't wait for it.
pub async fn drop(tx: &Transaction<'_>, start: i64) -> Result<(), TxError> {
    let name = name(start);
    let statements = format!(
        "-- replay_partitions.drop
        LOCK TABLE ONLY {name} IN ACCESS EXCLUSIVE MODE; DROP TABLE {name}"
    );
    Ok(tx.batch_execute(&statements).await?)
}

fn name(start: i64) -> String {
    format!("{PREFIX}{start}")
}
