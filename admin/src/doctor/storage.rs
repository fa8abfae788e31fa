//! What makes the files of Postgres grow, and statistics of the planner that are missing.

use super::Finding;
use crate::Result;
use tokio_postgres::Client;

common::statements! {
    /// A standby has no current position of its own.
    const SLOTS = "-- doctor.replication_slots
    SELECT slot_name::text, active, coalesce(wal_status, '-'),
           coalesce(CASE WHEN pg_is_in_recovery() THEN 0
                         ELSE pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) END, 0)::bigint
    FROM pg_replication_slots ORDER BY slot_name";

    const DEAD_ROWS = "-- doctor.dead_rows
    SELECT relname::text, n_live_tup, n_dead_tup FROM pg_stat_user_tables
    WHERE schemaname = current_schema() AND n_dead_tup > 100000 AND n_dead_tup > n_live_tup / 5
    ORDER BY n_dead_tup DESC LIMIT 5";

    /// Without partitions of used signatures, which are dropped before they need statistics.
    const NEVER_ANALYZED = "-- doctor.never_analyzed
    SELECT c.relname::text FROM pg_class c
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND NOT c.relispartition
      AND c.reltuples < 0 AND pg_relation_size(c.oid) > 2 * 1024 * 1024
    ORDER BY c.relname LIMIT 5";
}

/// WAL that an inactive slot may hold before it is an error.
const WAL_MAX: i64 = 10 << 30;

/// Slots that keep WAL for a standby which does not read it.
pub(super) async fn replication_slots(client: &Client) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for row in client.query(SLOTS.as_str(), &[]).await? {
        let (name, is_active): (String, bool) = (row.try_get(0)?, row.try_get(1)?);
        let (status, held): (String, i64) = (row.try_get(2)?, row.try_get(3)?);
        let is_lost = status == "lost" || status == "unreserved";
        if is_active && !is_lost {
            continue;
        }
        let finding = if is_lost || held > WAL_MAX { Finding::error } else { Finding::warning };
        findings.push(finding(
            format!("nobody reads the replication slot {name:?}, which holds {} MiB of WAL ({status})", held >> 20),
            format!("Start its standby. If there is none any more: SELECT pg_drop_replication_slot('{name}')"),
        ));
    }
    Ok(findings)
}

/// Tables with many dead rows.
pub(super) async fn vacuum(client: &Client) -> Result<Vec<Finding>> {
    let rows = client.query(DEAD_ROWS.as_str(), &[]).await?;
    let of = |row: &tokio_postgres::Row| {
        let (table, live, dead): (String, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        Ok(Finding::warning(
            format!("{table} has {dead} removed rows that are not vacuumed, beside {live} others"),
            format!("End long transactions, then: VACUUM {table}; check that autovacuum is on"),
        ))
    };
    rows.iter().map(of).collect()
}

/// Tables with data that were never analyzed.
pub(super) async fn statistics(client: &Client) -> Result<Vec<Finding>> {
    let rows = client.query(NEVER_ANALYZED.as_str(), &[]).await?;
    let of = |row: &tokio_postgres::Row| {
        let table: String = row.try_get(0)?;
        Ok(Finding::warning(
            format!("{table} was never analyzed: the planner knows nothing of its rows"),
            format!("ANALYZE {table}; check that autovacuum is on"),
        ))
    };
    rows.iter().map(of).collect()
}
