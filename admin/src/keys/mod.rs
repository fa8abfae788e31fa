//! API keys. A secret is returned only once, when it is created (D5).

mod last_use;
mod rotate;

pub use last_use::SecretUse;
pub(crate) use last_use::UseRow;
pub use rotate::{RotatedKey, end_overlap, rotate_secret};

use crate::audit::{Actor, AuditAction, record};
use crate::input::{KeyScopes, Name, Origin, duration};
use crate::transaction::transact;
use crate::{AdminError, master_key, secrets, store, tenants};
use chrono::{DateTime, TimeDelta, Utc};
use common::clock;
use common::model::TenantId;
use common::sealed::{MasterKeys, api_key_binding};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio_postgres::{Client, Transaction};

/// An API key to be created.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewKey {
    /// Slug of the tenant.
    pub tenant: String,
    /// What the key is for.
    pub name: Name,
    /// What the key permits.
    pub scopes: KeyScopes,
    /// The emitting system that uses the key: outbound events of this origin are not sent to it.
    pub origin: Option<Origin>,
    /// How long the key is valid; `None` for no limit.
    #[serde(default, deserialize_with = "duration")]
    pub expires_in: Option<Duration>,
}

/// An API key that was created.
#[derive(Serialize)]
pub struct CreatedKey {
    /// The key's public name.
    pub prefix: String,
    /// The secret, which is stored sealed and cannot be read again.
    pub secret: String,
    /// What the key permits.
    pub scopes: Vec<String>,
}

/// An API key, without its secret.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Key {
    /// The key's public name.
    pub prefix: String,
    /// What the key is for.
    pub name: String,
    /// What the key permits.
    pub scopes: Vec<String>,
    /// The emitting system that uses the key.
    pub origin: Option<String>,
    /// RFC 3339, UTC.
    pub created_at: String,
    /// RFC 3339, UTC; null for no limit.
    pub expires_at: Option<String>,
    /// RFC 3339, UTC; null while the key is not revoked.
    pub revoked_at: Option<String>,
    /// When any secret of the key was last used, RFC 3339, UTC, with an error of about a minute; null if it was not used since
    /// uses are recorded.
    pub last_used_at: Option<String>,
    /// Whether the key is not revoked and was not used for seven days.
    pub safe_to_revoke: bool,
    /// Requests with the key in the last 24 hours, by whole hours.
    pub requests_last_day: RequestCounts,
    /// The current secret, and during an overlap the one before it.
    pub secrets: Vec<SecretUse>,
}

/// Numbers of requests that named a key.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RequestCounts {
    /// With valid credentials, and not refused.
    pub accepted: i64,
    /// Refused with a status from 400 to 499, except those that describe the state of a record: 404, 409 and 412.
    pub refused: i64,
}

/// What is stored of a new key.
pub(crate) struct KeyRow<'a> {
    pub(crate) prefix: &'a str,
    pub(crate) sealed: &'a [u8],
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) expires_at: Option<DateTime<Utc>>,
}

/// Creates a key with a new secret, which is stored sealed and returned only here.
pub async fn create(
    client: &mut Client,
    actor: &Actor,
    master_keys: &MasterKeys,
    new: &NewKey,
) -> Result<CreatedKey, AdminError> {
    master_key::verify(client, master_keys).await?;
    let tenant = tenants::find(&*client, &new.tenant).await?;
    let (prefix, secret) = (secrets::new_prefix()?, secrets::new_secret("cs_")?);
    let sealed = secrets::seal(master_keys, &secret, &api_key_binding(tenant, &prefix))?;
    let created_at = clock::now();
    let expires_at = new.expires_in.map(|span| expiry(created_at, span)).transpose()?;
    let row = KeyRow { prefix: &prefix, sealed: &sealed, created_at, expires_at };
    transact(client, async |tx| {
        store::api_keys::create(tx, tenant, new, &row).await?;
        record(tx, actor, AuditAction::CreateKey, &prefix, Some(tenant)).await
    })
    .await?;
    Ok(CreatedKey { secret: secret.reveal().to_owned(), scopes: new.scopes.names(), prefix })
}

/// Replaces the scopes of a key. Running programs follow within a second.
pub async fn set_scopes(
    client: &mut Client,
    actor: &Actor,
    prefix: &str,
    scopes: &KeyScopes,
) -> Result<Key, AdminError> {
    transact(client, async |tx| {
        if store::api_keys::is_revoked(tx, prefix).await? {
            return Err(AdminError::KeyRevoked(prefix.to_owned()));
        }
        let changed = store::api_keys::set_scopes(tx, prefix, scopes).await?;
        recorded(tx, actor, AuditAction::SetKeyScopes, prefix, changed).await
    })
    .await
}

/// Revokes a key permanently. Running programs refuse it within a second.
pub async fn revoke(client: &mut Client, actor: &Actor, prefix: &str) -> Result<Key, AdminError> {
    transact(client, async |tx| {
        let changed = store::api_keys::revoke(tx, prefix).await?;
        recorded(tx, actor, AuditAction::RevokeKey, prefix, changed).await
    })
    .await
}

/// The keys of a tenant, including revoked ones, in the order in which they were created.
pub async fn list(client: &Client, tenant: &str) -> Result<Vec<Key>, AdminError> {
    let tenant = tenants::find(client, tenant).await?;
    let now = clock::now();
    store::api_keys::list(client, tenant, now).await
}

/// The key with this prefix, if it belongs to the tenant.
pub async fn find_in(client: &Client, tenant: TenantId, prefix: &str) -> Result<Key, AdminError> {
    let not_found = || AdminError::KeyNotFound(prefix.to_owned());
    if store::api_keys::tenant(client, prefix).await? != Some(tenant) {
        return Err(not_found());
    }
    store::api_keys::find(client, prefix, clock::now()).await?.ok_or_else(not_found)
}

/// Adds the record of a change of a key, and returns the key. Without a `tenant` no such key was changed.
async fn recorded(
    tx: &Transaction<'_>,
    actor: &Actor,
    action: AuditAction,
    prefix: &str,
    tenant: Option<TenantId>,
) -> Result<Key, AdminError> {
    let not_found = || AdminError::KeyNotFound(prefix.to_owned());
    let tenant = tenant.ok_or_else(not_found)?;
    record(tx, actor, action, prefix, Some(tenant)).await?;
    store::api_keys::find(tx, prefix, clock::now()).await?.ok_or_else(not_found)
}

fn expiry(now: DateTime<Utc>, span: Duration) -> Result<DateTime<Utc>, AdminError> {
    let span = TimeDelta::from_std(span).map_err(|error| AdminError::InvalidInput(error.to_string()))?;
    let too_far = || AdminError::InvalidInput("the key would expire too far in the future".to_owned());
    now.checked_add_signed(span).ok_or_else(too_far)
}
