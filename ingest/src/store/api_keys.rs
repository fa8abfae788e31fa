//! `api_keys`, joined with `tenants`, and `key_revision`, which counts their changes.

use chrono::{DateTime, Utc};
use common::model::KeyPrefix;
use tokio_postgres::Error;
use uuid::Uuid;

/// Subscribes to notifications of changed keys and tenants.
pub(crate) const LISTEN: &str = "LISTEN connect_keys";

common::statements! {
    /// The revision of the last change, that of the last removal, and whether the server has been demoted.
    pub(crate) const REVISION = "-- key_revision.read
    SELECT revision, last_removal, pg_is_in_recovery() OR current_setting('transaction_read_only')::bool
    FROM key_revision";

    /// Keys in the order of their revision and prefix, from a place on.
    pub(crate) const CHANGED = "-- api_keys.changed
    SELECT k.revision, k.prefix, k.tenant_id, t.slug, k.secret_sealed, k.scopes, k.origin, k.expires_at,
           k.revoked_at IS NOT NULL, t.reads_per_second, k.secret_number, k.old_secret_sealed, k.old_secret_until
    FROM (SELECT * FROM api_keys WHERE (revision, prefix) > ($1, $2) ORDER BY revision, prefix LIMIT $3) AS k
    CROSS JOIN LATERAL (SELECT * FROM tenants t WHERE t.tenant_id = k.tenant_id LIMIT 1) AS t
    ORDER BY k.revision, k.prefix";
}

/// A row of [`CHANGED`].
pub(crate) struct Row {
    pub(crate) prefix: KeyPrefix,
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

/// Reads a row of [`CHANGED`]: its place (revision and prefix), and the key, unless nobody can send its prefix.
pub(crate) fn read(row: &tokio_postgres::Row) -> Result<((i64, String), Option<Row>), Error> {
    let place: (i64, String) = (row.try_get(0)?, row.try_get(1)?);
    let Some(prefix) = KeyPrefix::parse(&place.1) else { return Ok((place, None)) };
    let (old_secret, until): (Option<Vec<u8>>, Option<_>) = (row.try_get(11)?, row.try_get(12)?);
    let key = Row {
        prefix,
        tenant_id: row.try_get(2)?,
        tenant: row.try_get(3)?,
        secret_sealed: row.try_get(4)?,
        scopes: row.try_get(5)?,
        origin: row.try_get(6)?,
        expires_at: row.try_get(7)?,
        is_revoked: row.try_get(8)?,
        reads_per_second: row.try_get(9)?,
        secret_number: row.try_get(10)?,
        old_secret: old_secret.zip(until),
    };
    Ok((place, Some(key)))
}
