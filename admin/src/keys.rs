//! API keys. A secret is returned only once, when it is created (D5).

use crate::audit::{Actor, AuditAction, record};
use crate::input::{KeyScopes, Rotation};
use crate::store::api_keys::KeyRow;
pub use crate::store::api_keys::{Key, NewKey, RequestCounts, SecretUse};
use crate::{AdminError, Newest, Result, secrets, store, tenants, transact};
use common::clock;
use common::model::TenantId;
use common::sealed::{MasterKeys, api_key_binding};
use common::settings::Bound;
use serde::Serialize;
use tokio_postgres::{Client, Transaction};

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

/// Creates a key with a new secret, which is stored sealed and returned only here. Refused if the tenant has as many keys as
/// `bound` allows.
pub async fn create(
    client: &mut Client, actor: &Actor, master_keys: &MasterKeys, bound: Bound, new: &NewKey,
) -> Result<CreatedKey> {
    secrets::verify_master_keys(client, master_keys).await?;
    let tenant = tenants::find(&*client, &new.tenant).await?;
    let (prefix, secret) = (secrets::new_prefix()?, secrets::new_secret("cs_")?);
    let sealed = secrets::seal(master_keys, &secret, &api_key_binding(tenant, &prefix))?;
    let created_at = clock::database_now();
    let expires_at = new.expires_in.map(|span| secrets::end(created_at, span, "the key would expire")).transpose()?;
    let row = KeyRow { prefix: &prefix, sealed: &sealed, created_at, expires_at };
    transact(client, async |tx| {
        if !store::api_keys::create(tx, tenant, new, &row, bound).await? {
            return Err(AdminError::BoundReached { what: "active keys", bound });
        }
        record(tx, actor, AuditAction::CreateKey, &prefix, Some(tenant)).await
    })
    .await?;
    Ok(CreatedKey { secret: secret.reveal().to_owned(), scopes: new.scopes.names(), prefix })
}

/// Replaces the scopes of a key. Running programs follow within a second.
pub async fn set_scopes(client: &mut Client, actor: &Actor, prefix: &str, scopes: &KeyScopes) -> Result<Key> {
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
pub async fn revoke(client: &mut Client, actor: &Actor, prefix: &str) -> Result<Key> {
    transact(client, async |tx| {
        let changed = store::api_keys::revoke(tx, prefix).await?;
        recorded(tx, actor, AuditAction::RevokeKey, prefix, changed).await
    })
    .await
}

/// Which keys of a tenant are listed.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyFilter<'a> {
    /// Only keys that are revoked, or only those that are not.
    pub is_revoked: Option<bool>,
    /// Only keys that were created before the one with this prefix: the next page begins before the first key of this one.
    pub before: Option<&'a str>,
}

/// The newest `limit` keys of a tenant that the filter selects, in the order in which they were created.
pub async fn list(client: &Client, tenant: &str, filter: KeyFilter<'_>, limit: u32) -> Result<Newest<Key>> {
    let tenant = tenants::find(client, tenant).await?;
    store::api_keys::list(client, tenant, (filter.is_revoked, filter.before), limit).await
}

/// The key with this prefix, if it belongs to the tenant.
pub async fn find_in(client: &Client, tenant: TenantId, prefix: &str) -> Result<Key> {
    let not_found = || AdminError::KeyNotFound(prefix.to_owned());
    if store::api_keys::tenant(client, prefix).await? != Some(tenant) {
        return Err(not_found());
    }
    store::api_keys::find(client, prefix, clock::database_now()).await?.ok_or_else(not_found)
}

/// Adds the record of a change of a key, and returns the key. Without a `tenant` no such key was changed.
async fn recorded(
    tx: &Transaction<'_>, actor: &Actor, action: AuditAction, prefix: &str, tenant: Option<TenantId>,
) -> Result<Key> {
    let not_found = || AdminError::KeyNotFound(prefix.to_owned());
    let tenant = tenant.ok_or_else(not_found)?;
    record(tx, actor, action, prefix, Some(tenant)).await?;
    store::api_keys::find(tx, prefix, clock::database_now()).await?.ok_or_else(not_found)
}

/// The new secret of a key.
#[derive(Serialize)]
pub struct RotatedKey {
    /// The key's public name.
    pub prefix: String,
    /// The secret, which is stored sealed and cannot be read again.
    pub secret: String,
}

/// Replaces the secret of a key. During `overlap` signatures with the old secret are accepted as well; without it they are
/// refused from now on. Refused while the overlap of an earlier rotation runs, unless that may be replaced. Running programs follow
/// within a second.
pub async fn rotate_secret(
    client: &mut Client, actor: &Actor, master_keys: &MasterKeys, prefix: &str, rotation: Rotation,
) -> Result<RotatedKey> {
    secrets::verify_master_keys(client, master_keys).await?;
    let now = clock::database_now();
    let until = rotation.overlap.map(|overlap| secrets::end(now, overlap, "the overlap would end")).transpose()?;
    let Some(tenant) = store::api_keys::tenant(&*client, prefix).await? else {
        return Err(AdminError::KeyNotFound(prefix.to_owned()));
    };
    let secret = secrets::new_secret("cs_")?;
    let sealed = secrets::seal(master_keys, &secret, &api_key_binding(tenant, prefix))?;
    transact(client, async |tx| {
        if !store::api_keys::rotate_secret(tx, prefix, &sealed, (until, rotation.replace_overlap), now).await? {
            let overlap = store::api_keys::overlap(tx, prefix).await?;
            let revoked = || AdminError::KeyRevoked(prefix.to_owned());
            return Err(overlap.map_or_else(revoked, |until| AdminError::OverlapRuns(clock::to_text(until))));
        }
        record(tx, actor, AuditAction::RotateKeySecret, prefix, Some(tenant)).await
    })
    .await?;
    Ok(RotatedKey { prefix: prefix.to_owned(), secret: secret.reveal().to_owned() })
}

/// Ends the overlap of a rotation: signatures with the old secret are refused from now on. Changes nothing if there is none.
pub async fn end_overlap(client: &mut Client, actor: &Actor, prefix: &str) -> Result<Key> {
    transact(client, async |tx| {
        let changed = store::api_keys::end_overlap(tx, prefix).await?;
        recorded(tx, actor, AuditAction::EndKeyOverlap, prefix, changed).await
    })
    .await
}
