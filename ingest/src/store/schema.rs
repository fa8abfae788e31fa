//! Checks that the schema exists.

use common::db::Client;
use tokio_postgres::Error;

common::statements! {
    /// Whether the tables exist; needs no privilege on them.
    const IS_MIGRATED = "-- schema.is_migrated
    SELECT to_regclass('api_keys') IS NOT NULL AND to_regclass('replay_entries') IS NOT NULL";
}

/// Whether the schema was migrated.
pub(crate) async fn is_migrated(client: &Client) -> Result<bool, Error> {
    let statement = super::prepared(client, IS_MIGRATED).await?;
    client.query_one(&statement, &[]).await?.try_get(0)
}
