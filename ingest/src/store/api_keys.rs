//! `api_keys`, joined with `tenants`.

use chrono::{DateTime, Utc};
use common::db::Client;
use common::model::KeyPrefix;
use tokio_postgres::Error;
use uuid::Uuid;

common::statements! {
    /// A key and its tenant by the key's prefix.
    const FIND = "-- api_keys.find
    SELECT k.tenant_id, t.slug, k.secret_sealed, k.scopes, k.origin, k.expires_at, k.revoked_at IS NOT NULL,
           t.reads_per_second, k.secret_number, k.old_secret_sealed, k.old_secret_until
    FROM api_keys k CROSS JOIN LATERAL (SELECT * FROM tenants t WHERE t.tenant_id = k.tenant_id LIMIT 1) AS t
    WHERE k.prefix = $1";
}

/// A row of [`FIND`].
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) tenant_id: Uuid,
    /// The slug of the tenant.
    pub(crate) tenant: String,
    pub(crate) secret_sealed: Vec<u8>,
    pub(crate) scopes: Vec<String>,
    /// The origin the key is registered with.
    pub(crate) origin: Option<String>,
    pub(crate) expires_at: Option<DateTime<Utc>>,
    pub(crate) is_revoked: bool,
    /// Records reads per second that the tenant allows a key.
    pub(crate) reads_per_second: i32,
    /// Number of the current secret.
    pub(crate) secret_number: i32,
    /// The secret before it, and the time from which it is refused.
    pub(crate) old_secret: Option<(Vec<u8>, DateTime<Utc>)>,
}

/// Finds a key by its prefix, whatever its state.
pub(crate) async fn find(client: &Client, prefix: &KeyPrefix) -> Result<Option<Row>, Error> {
    let statement = super::prepared(client, FIND).await?;
    let Some(row) = client.query_opt(&statement, &[&prefix.as_str()]).await? else { return Ok(None) };
    let (old_secret, until): (Option<Vec<u8>>, Option<_>) = (row.try_get(9)?, row.try_get(10)?);
    Ok(Some(Row {
        tenant_id: row.try_get(0)?,
        tenant: row.try_get(1)?,
        secret_sealed: row.try_get(2)?,
        scopes: row.try_get(3)?,
        origin: row.try_get(4)?,
        expires_at: row.try_get(5)?,
        is_revoked: row.try_get(6)?,
        reads_per_second: row.try_get(7)?,
        secret_number: row.try_get(8)?,
        old_secret: old_secret.zip(until),
    }))
}
