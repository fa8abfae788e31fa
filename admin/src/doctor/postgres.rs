//! The Postgres servers: settings, clock, sessions, transactions that are open for long, the read replica of ingest, what makes the files
//! grow, and statistics of the planner that are missing.

use super::Finding;
use crate::{AdminError, Result};
use chrono::{DateTime, TimeDelta, Utc};
use common::clock;
use common::db::{ConnectError, keeps_prepared_statements, missing_behind_pooler};
use common::settings::DatabaseSettings;
use std::time::Duration;
use tokio_postgres::Client;

common::statements! {
    /// In a session without settings of its own for these.
    const SETTINGS = "-- doctor.settings
    SELECT name, setting FROM pg_settings
    WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names', 'autovacuum', 'track_counts',
                   'default_transaction_isolation', 'zero_damaged_pages', 'server_encoding')
    ORDER BY name";

    const READ_ONLY = "-- doctor.read_only
    SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on'";

    const CLOCK = "-- doctor.clock
    SELECT clock_timestamp()";

    const CONNECTIONS = "-- doctor.connections
    SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
           current_setting('max_connections')::bigint,
           pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'), current_user::text";

    /// The oldest of this database. Their queries may contain personal data and are not read.
    const TRANSACTIONS = "-- doctor.transactions
    SELECT pid, coalesce(usename::text, '-'), coalesce(nullif(application_name, ''), '-'), coalesce(state, '-'),
           extract(epoch FROM clock_timestamp() - xact_start)::float8
    FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
      AND xact_start IS NOT NULL AND clock_timestamp() - xact_start >= make_interval(secs => $1)
    ORDER BY xact_start LIMIT 5";

    const PREPARED = "-- doctor.prepared_transactions
    SELECT gid, extract(epoch FROM clock_timestamp() - prepared)::float8 FROM pg_prepared_xacts
    WHERE database = current_database() AND clock_timestamp() - prepared >= make_interval(secs => $1)
    ORDER BY prepared LIMIT 5";

    /// The heartbeat that a server shows, and its age by the server's clock; both in seconds.
    const HEARTBEAT = "-- doctor.replication_heartbeat
    SELECT extract(epoch FROM beat_at)::float8, extract(epoch FROM clock_timestamp() - beat_at)::float8
    FROM replication_heartbeat";

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

/// Differences of clocks: signatures are valid for 300 s, and a records write has a deadline.
const CLOCK_WARNING: TimeDelta = TimeDelta::seconds(1);
const CLOCK_ERROR: TimeDelta = TimeDelta::seconds(30);

/// A setting, its only good value, and what another one leads to.
const EXPECTED: [(&str, &str, bool, &str); 6] = [
    ("fsync", "on", true, "a crash of the machine may lose confirmed events or destroy the database"),
    ("full_page_writes", "on", true, "a crash of the machine may destroy pages of the database"),
    ("zero_damaged_pages", "off", true, "damaged pages are silently emptied"),
    ("autovacuum", "on", true, "tables grow without limit, and statistics become outdated"),
    ("track_counts", "on", true, "autovacuum does not know which tables need it"),
    ("default_transaction_isolation", "read committed", false, "the programs retry more transactions than needed"),
];

/// The settings that the programs rely on and do not set in their sessions.
pub(super) async fn settings(client: &Client) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut is_local = false;
    // In the order of the names.
    for row in client.query(SETTINGS.as_str(), &[]).await? {
        let (name, found): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        is_local |= name == "synchronous_commit" && found == "local";
        let fix = "ALTER SYSTEM SET synchronous_commit = on; then SELECT pg_reload_conf()";
        if name == "synchronous_standby_names" && is_local && !found.is_empty() {
            let message = "synchronous_commit is local by default although synchronous_standby_names is set: behind a connection pooler a failover would lose confirmed events";
            findings.push(Finding::warning(message, fix));
        }
        if name == "synchronous_commit" && found == "off" {
            let message = "synchronous_commit is off by default: behind a connection pooler the programs would lose confirmed commits in a crash, so they refuse to work there";
            findings.push(Finding::warning(message, fix));
        }
        if name == "server_encoding" && found != "UTF8" {
            findings.push(Finding::error(
                format!("the database's encoding is {found}: names with other characters cannot be stored"),
                "Create the database with ENCODING 'UTF8' and TEMPLATE template0",
            ));
        }
        let Some((_, good, is_error, effect)) = EXPECTED.iter().find(|(known, ..)| *known == name) else {
            continue;
        };
        if found != *good {
            let fix = format!("ALTER SYSTEM SET {name} = '{good}'; then SELECT pg_reload_conf()");
            findings.push(Finding::of(*is_error, format!("{name} is {found}: {effect}"), fix));
        }
    }
    Ok(findings)
}

/// Whether the server accepts writes.
pub(super) async fn read_only(client: &Client) -> Result<Vec<Finding>> {
    let row = client.query_one(READ_ONLY.as_str(), &[]).await?;
    let message = match (row.try_get(0)?, row.try_get(1)?) {
        (true, _) => "the server is a standby: nothing can be written",
        (false, true) => "the server is read-only: nothing can be written",
        (false, false) => return Ok(Vec::new()),
    };
    let fix = "Name the primary in DATABASE_URL, or all servers of the cluster; if this is the primary, reset default_transaction_read_only there";
    Ok(vec![Finding::error(message, fix)])
}

/// The difference between the clocks of the server and of this machine, beyond what the round trip explains.
pub(super) async fn clock(client: &Client) -> Result<Vec<Finding>> {
    // Prepared beforehand, so that only the round trip of the query is measured.
    let statement = client.prepare(CLOCK.as_str()).await?;
    let before = clock::now();
    let row = client.query_one(&statement, &[]).await?;
    let after = clock::now();
    let server: DateTime<Utc> = row.try_get(0)?;
    let ahead = (server - after).max(before - server).max(TimeDelta::zero());
    if ahead <= CLOCK_WARNING {
        return Ok(Vec::new());
    }
    let message = format!("the clocks of the database server and of this machine differ by {} s", ahead.num_seconds());
    Ok(vec![Finding::of(ahead > CLOCK_ERROR, message, "Synchronize the clocks of all machines with NTP")])
}

/// What a connection pooler drops.
pub(super) async fn pooler(settings: &DatabaseSettings, patience: Duration) -> Result<Vec<Finding>> {
    if settings.url == settings.direct_url {
        return Ok(Vec::new());
    }
    let unreadable = |error: ConnectError| AdminError::Unreadable(error.to_string());
    if !keeps_prepared_statements(&settings.url, patience).await.map_err(unreadable)? {
        let message = "the connection pooler of DATABASE_URL does not keep prepared statements between transactions: statements fail";
        let fix = "Use PgBouncer 1.21 or newer with max_prepared_statements = 200, or pool_mode = session; see docs/install.md, PgBouncer";
        return Ok(vec![Finding::error(message, fix)]);
    }
    let missing = missing_behind_pooler(&settings.url, patience).await.map_err(unreadable)?;
    let fix = "Run connectctl migrate with DATABASE_URL and DATABASE_DIRECT_URL for each program's user, then RECONNECT in the pooler; see docs/install.md, PgBouncer";
    Ok(missing.into_iter().map(|missing| Finding::of(missing.is_error, missing.text, fix)).collect())
}

/// Percentages of max_connections.
const MANY: i64 = 80;
const TOO_MANY: i64 = 95;

pub(super) async fn connections(client: &Client) -> Result<Vec<Finding>> {
    let row = client.query_one(CONNECTIONS.as_str(), &[]).await?;
    let (open, most): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    let (sees_all, user): (bool, String) = (row.try_get(2)?, row.try_get(3)?);
    let mut findings = Vec::new();
    if open * 100 >= most * MANY {
        let fix = "Raise max_connections and restart the server, run fewer copies of the programs, or use a connection pooler";
        let is_error = open * 100 >= most * TOO_MANY;
        findings.push(Finding::of(is_error, format!("{open} of {most} connections are in use"), fix));
    }
    if !sees_all {
        findings.push(Finding::warning(
            format!("{user} does not see the transactions of other roles, so the check of transactions is incomplete"),
            format!("GRANT pg_monitor TO {user}, as a superuser"),
        ));
    }
    Ok(findings)
}

/// Transactions that have been open for at least `age`. They keep removed rows from being reused.
pub(super) async fn transactions(client: &Client, age: Duration) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for row in client.query(TRANSACTIONS.as_str(), &[&age.as_secs_f64()]).await? {
        let (pid, user, name): (i32, String, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let (state, seconds): (String, f64) = (row.try_get(3)?, row.try_get(4)?);
        findings.push(Finding::of(
            seconds >= age.as_secs_f64() * 12.0,
            format!("a transaction of {user} ({name}, {state}) has been open for {seconds:.0} s: removed rows cannot be reused"),
            format!("Have its owner end it, or: SELECT pg_terminate_backend({pid})"),
        ));
    }
    for row in client.query(PREPARED.as_str(), &[&age.as_secs_f64()]).await? {
        let (id, seconds): (String, f64) = (row.try_get(0)?, row.try_get(1)?);
        findings.push(Finding::error(
            format!("the prepared transaction {id:?} has been open for {seconds:.0} s: removed rows cannot be reused"),
            "Connect prepares none. Commit or roll it back: ROLLBACK PREPARED",
        ));
    }
    Ok(findings)
}

/// A replica that lags behind further than ingest accepts. The heartbeat is written only while an ingest runs; a replica that has
/// the newest one is complete.
pub(super) async fn replica_lag(primary: &Client, replica: &Client, limit: Duration) -> Result<Vec<Finding>> {
    // In this order, so that a heartbeat that is written meanwhile is not missed on the replica.
    let newest = primary.query_one(HEARTBEAT.as_str(), &[]).await?;
    let shown = replica.query_one(HEARTBEAT.as_str(), &[]).await?;
    let (newest, age, shown): (f64, f64, f64) = (newest.try_get(0)?, newest.try_get(1)?, shown.try_get(0)?);
    let lag = newest - shown + age;
    if shown >= newest || lag <= limit.as_secs_f64() {
        return Ok(Vec::new());
    }
    let message = format!(
        "the server of DATABASE_READ_URL lags {lag:.0} s behind the primary, so ingest reads records on the primary"
    );
    let fix = "Read pg_stat_wal_receiver and pg_is_wal_replay_paused() on the replica; see the runbook, ConnectReadReplicaBehind";
    Ok(vec![Finding::warning(message, fix)])
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
        findings.push(Finding::of(
            is_lost || held > WAL_MAX,
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
