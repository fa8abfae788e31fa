//! The schema: its version, its indexes, and whether every statement finds its rows by an index.

use super::Finding;
use crate::AdminError;
use common::activity;
use common::db::{MASTER_KEY_STATEMENTS, missing_migrations};
use common::retention;
use std::collections::BTreeMap;
use tokio_postgres::Client;

common::statements! {
    /// An index that is being built now is not valid yet.
    const INVALID_INDEXES = "-- doctor.invalid_indexes
    SELECT i.indexrelid::regclass::text, i.indrelid::regclass::text
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE c.relnamespace = current_schema()::regnamespace AND NOT (i.indisvalid AND i.indisready AND i.indislive)
      AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid)
    ORDER BY 1";

    /// Tables for which reading all rows takes long.
    const LARGE_TABLES = "-- doctor.large_tables
    SELECT c.relname::text FROM pg_class c
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND NOT c.relispartition
      AND pg_relation_size(c.oid) > 2 * 1024 * 1024
    ORDER BY 1";
}

/// The statements of the programs, which are not part of connectctl. `tests/it/operator/doctor` compares the file with them.
const PROGRAM_STATEMENTS: &str = include_str!("statements.sql");
/// What separates statements in the file.
const SEPARATOR: &str = "\n-- ----\n";

/// Statements that are meant to read a whole table: counts of all deliveries for a gauge, and small tables.
const WHOLE_TABLE_STATEMENTS: [&str; 6] = [
    "deliveries.ended",
    "intake_pressure.remove_old",
    "key_revision.read",
    "replication_heartbeat.beat",
    "replication_heartbeat.read",
    "subscriptions.count_unsealed",
];

pub(super) async fn version(client: &Client) -> Result<Vec<Finding>, AdminError> {
    Ok(match missing_migrations(client).await {
        Ok(missing) if missing.is_empty() => Vec::new(),
        Ok(missing) => vec![Finding::error(
            format!("the schema lacks {} migrations: {}", missing.len(), missing.join(", ")),
            "Run connectctl migrate",
        )],
        Err(error) => vec![Finding::error(
            crate::describe(&error),
            "Use the connectctl and the programs of the release that migrated this database",
        )],
    })
}

pub(super) async fn indexes(client: &Client) -> Result<Vec<Finding>, AdminError> {
    let rows = client.query(INVALID_INDEXES.as_str(), &[]).await?;
    let of = |row: &tokio_postgres::Row| {
        let (index, table): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        let fix = if index.contains("_ccnew") || index.contains("_ccold") {
            format!("An interrupted REINDEX has left it: DROP INDEX CONCURRENTLY {index}")
        } else {
            format!("REINDEX INDEX CONCURRENTLY {index}")
        };
        Ok(Finding::error(
            format!("the index {index} of {table} is invalid: its building was interrupted"),
            fix,
        ))
    };
    rows.iter().map(of).collect()
}

/// Explains every statement of the programs and of connectctl, under the settings of their sessions.
pub(super) async fn plans(client: &Client) -> Result<Vec<Finding>, AdminError> {
    let large: Vec<String> = client
        .query(LARGE_TABLES.as_str(), &[])
        .await?
        .iter()
        .map(|row| row.try_get(0))
        .collect::<Result<_, _>>()?;
    if large.is_empty() {
        return Ok(Vec::new());
    }
    let mut scanned: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for statement in statements() {
        let name = name(statement);
        if WHOLE_TABLE_STATEMENTS.contains(&name) {
            continue;
        }
        for step in plan(client, statement).await? {
            if let Some(table) = scanned_table(&step).filter(|table| large.iter().any(|large| large == table))
            {
                let names = scanned.entry(table.to_owned()).or_default();
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
    }
    let of = |(table, names): (String, Vec<&str>)| {
        Finding::error(
            format!("{} read the whole table {table}", names.join(", ")),
            format!(
                "An index of {table} is missing or invalid: compare its indexes with those of sql/, create or rebuild it CONCURRENTLY, then ANALYZE {table}"
            ),
        )
    };
    Ok(scanned.into_iter().map(of).collect())
}

fn statements() -> impl Iterator<Item = &'static str> {
    let own = crate::store::STATEMENTS.iter().chain(retention::STATEMENTS).copied().flatten();
    let own = own.chain(activity::STATEMENTS).chain(MASTER_KEY_STATEMENTS).map(|sql| sql.as_str());
    own.chain(PROGRAM_STATEMENTS.split(SEPARATOR).filter(|statement| !statement.trim().is_empty()))
}

fn name(statement: &str) -> &str {
    let first = statement.trim_start().lines().next().unwrap_or_default();
    first.strip_prefix("-- ").unwrap_or(first)
}

/// The plan of a statement, a line for each step. The values of the parameters are null, which a generic plan does not see.
async fn plan(client: &Client, statement: &str) -> Result<Vec<String>, AdminError> {
    let parameters = client.prepare(statement).await?.params().len();
    let nulls =
        if parameters == 0 { String::new() } else { format!("({})", vec!["NULL"; parameters].join(", ")) };
    client.batch_execute(&format!("PREPARE explained AS {statement}")).await?;
    let rows = client.query(&format!("EXPLAIN EXECUTE explained{nulls}"), &[]).await;
    client.batch_execute("DEALLOCATE explained").await?;
    Ok(rows?.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

/// The table that a step of a plan reads whole.
fn scanned_table(step: &str) -> Option<&str> {
    step.split_once("Seq Scan on ")?.1.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_names_the_table_that_it_reads_whole() {
        assert_eq!(scanned_table("  ->  Parallel Seq Scan on leads l  (cost=1..2 rows=3)"), Some("leads"));
        assert_eq!(scanned_table("  ->  Index Scan using leads_pkey on leads l"), None);
    }

    #[test]
    fn every_statement_has_a_name() {
        let names: Vec<&str> = statements().map(name).collect();
        assert!(names.len() > 100, "{}", names.len());
        assert!(names.iter().all(|name| name.contains('.') && !name.contains(' ')), "{names:?}");
    }
}
