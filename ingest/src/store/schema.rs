//! Whether the database has what ingest needs.

use common::db::Client;
use tokio_postgres::Error;

/// Looks for the tables; needs no right on them.
pub const IS_THERE: &str = "-- schema.is_there
    SELECT to_regclass('api_keys') IS NOT NULL AND to_regclass('key_revision') IS NOT NULL
       AND to_regclass('replay_entries') IS NOT NULL";

/// Whether the schema was migrated.
pub async fn is_there(client: &Client) -> Result<bool, Error> {
    let statement = client.prepare_cached(IS_THERE).await?;
    client.query_one(&statement, &[]).await?.try_get(0)
}
