//! `api_key_uses`: when the secrets of keys were last used.

use super::prepared;
use chrono::{DateTime, Utc};
use common::db::Client;
use common::model::{KeyPrefix, TenantId};
use tokio_postgres::Error;
use uuid::Uuid;

common::statements! {
    /// Writes uses, unless later ones are stored already.
    const RECORD = "-- api_key_uses.record
    INSERT INTO api_key_uses AS stored (tenant_id, prefix, secret_number, last_used_at)
    SELECT * FROM unnest($1::uuid[], $2::text[], $3::integer[], $4::timestamptz[])
    ON CONFLICT (tenant_id, prefix, secret_number) DO UPDATE SET last_used_at = excluded.last_used_at
    WHERE stored.last_used_at < excluded.last_used_at";
}

/// A use of a key's secret.
#[derive(Clone, Debug)]
pub(crate) struct KeyUse {
    pub(crate) tenant: TenantId,
    pub(crate) key: KeyPrefix,
    pub(crate) secret_number: i32,
    pub(crate) at: DateTime<Utc>,
}

/// Writes uses of different secrets, which must be sorted by tenant, key and secret: statements of several ingests cannot
/// deadlock then.
pub(crate) async fn record(client: &Client, uses: &[KeyUse]) -> Result<(), Error> {
    let tenants: Vec<Uuid> = uses.iter().map(|used| used.tenant.0).collect();
    let prefixes: Vec<&str> = uses.iter().map(|used| used.key.as_str()).collect();
    let numbers: Vec<i32> = uses.iter().map(|used| used.secret_number).collect();
    let times: Vec<DateTime<Utc>> = uses.iter().map(|used| used.at).collect();
    let statement = prepared(client, RECORD).await?;
    client.execute(&statement, &[&tenants, &prefixes, &numbers, &times]).await?;
    Ok(())
}
