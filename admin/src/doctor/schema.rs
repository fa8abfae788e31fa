//! The schema: its version and its indexes.

use super::Finding;
use crate::AdminError;
use common::db::missing_migrations;
use tokio_postgres::Client;

common::statements! {
    /// An index that is being built now is not valid yet.
    const INVALID_INDEXES = "-- doctor.invalid_indexes
    SELECT i.indexrelid::regclass::text, i.indrelid::regclass::text
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE c.relnamespace = current_schema()::regnamespace AND NOT (i.indisvalid AND i.indisready AND i.indislive)
      AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid)
    ORDER BY 1";
}

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
