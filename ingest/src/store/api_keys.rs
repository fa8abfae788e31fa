//! `api_keys`, joined with `tenants`.

use chrono::{DateTime, Utc};
use common::db::Client;
use common::model::KeyPrefix;
use tokio_postgres::Error;
use uuid::Uuid;

/// A key and its agency by the key's prefix.
pub const FIND: &str = "-- api_keys.find
    SELECT k.tenant_id, t.slug, k.secret_sealed, k.scopes, k.origin, k.expires_at, k.revoked_at IS NOT NULL,
           t.reads_per_second
    FROM api_keys k JOIN tenants t ON t.tenant_id = k.tenant_id
    WHERE k.prefix = $1";

/// A row of [`FIND`].
#[derive(Clone)]
pub struct Row {
    /// The agency.
    pub tenant_id: Uuid,
    /// Its slug.
    pub tenant: String,
    /// The sealed secret.
    pub secret_sealed: Vec<u8>,
    /// Names of scopes.
    pub scopes: Vec<String>,
    /// The origin the key is registered with.
    pub origin: Option<String>,
    /// When it expires.
    pub expires_at: Option<DateTime<Utc>>,
    /// Whether it was revoked.
    pub is_revoked: bool,
    /// Records reads per second that the agency allows a key.
    pub reads_per_second: i32,
}

/// Finds a key by its prefix, whatever its state.
pub async fn find(client: &Client, prefix: &KeyPrefix) -> Result<Option<Row>, Error> {
    let statement = client.prepare_cached(FIND).await?;
    let Some(row) = client.query_opt(&statement, &[&prefix.as_str()]).await? else { return Ok(None) };
    Ok(Some(Row {
        tenant_id: row.try_get(0)?,
        tenant: row.try_get(1)?,
        secret_sealed: row.try_get(2)?,
        scopes: row.try_get(3)?,
        origin: row.try_get(4)?,
        expires_at: row.try_get(5)?,
        is_revoked: row.try_get(6)?,
        reads_per_second: row.try_get(7)?,
    }))
}
