//! Sessions of the Postgres server: their number, and transactions that are open for long.

use super::Finding;
use crate::AdminError;
use std::time::Duration;
use tokio_postgres::Client;

common::statements! {
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
}

/// Percentages of max_connections.
const MANY: i64 = 80;
const TOO_MANY: i64 = 95;

pub(super) async fn connections(client: &Client) -> Result<Vec<Finding>, AdminError> {
    let row = client.query_one(CONNECTIONS.as_str(), &[]).await?;
    let (open, most): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    let (sees_all, user): (bool, String) = (row.try_get(2)?, row.try_get(3)?);
    let mut findings = Vec::new();
    if open * 100 >= most * MANY {
        let finding = if open * 100 >= most * TOO_MANY { Finding::error } else { Finding::warning };
        findings.push(finding(
            format!("{open} of {most} connections are in use"),
            "Raise max_connections and restart the server, run fewer copies of the programs, or use a connection pooler".to_owned(),
        ));
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
pub(super) async fn transactions(client: &Client, age: Duration) -> Result<Vec<Finding>, AdminError> {
    let mut findings = Vec::new();
    for row in client.query(TRANSACTIONS.as_str(), &[&age.as_secs_f64()]).await? {
        let (pid, user, name): (i32, String, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let (state, seconds): (String, f64) = (row.try_get(3)?, row.try_get(4)?);
        let finding = if seconds >= age.as_secs_f64() * 12.0 { Finding::error } else { Finding::warning };
        findings.push(finding(
            format!("a transaction of {user} ({name}, {state}) has been open for {seconds:.0} s: removed rows cannot be reused"),
            format!("Have its owner end it, or: SELECT pg_terminate_backend({pid})"),
        ));
    }
    for row in client.query(PREPARED.as_str(), &[&age.as_secs_f64()]).await? {
        let (id, seconds): (String, f64) = (row.try_get(0)?, row.try_get(1)?);
        findings.push(Finding::error(
            format!("the prepared transaction {id:?} has been open for {seconds:.0} s: removed rows cannot be reused"),
            "Connect prepares none. Commit or roll it back: ROLLBACK PREPARED".to_owned(),
        ));
    }
    Ok(findings)
}
