//! Replacing the secret of a key (D33).

use super::{Key, recorded};
use crate::audit::{Actor, AuditAction, record};
use crate::transaction::transact;
use crate::{AdminError, master_key, secrets, store};
use common::clock;
use common::sealed::{MasterKeys, api_key_binding};
use serde::Serialize;
use std::time::Duration;
use tokio_postgres::Client;

/// The new secret of a key.
#[derive(Serialize)]
pub struct RotatedKey {
    /// The key's public name.
    pub prefix: String,
    /// The secret, which is stored sealed and cannot be read again.
    pub secret: String,
}

/// Replaces the secret of a key. During `overlap` signatures with the old secret are accepted as well; without it they are
/// refused from now on. Only one old secret is kept. Running programs follow within a second.
pub async fn rotate_secret(
    client: &mut Client,
    actor: &Actor,
    master_keys: &MasterKeys,
    prefix: &str,
    overlap: Option<Duration>,
) -> Result<RotatedKey, AdminError> {
    master_key::verify(client, master_keys).await?;
    let now = clock::now();
    let until = overlap.map(|overlap| secrets::overlap_end(now, overlap)).transpose()?;
    let Some(tenant) = store::api_keys::tenant(&*client, prefix).await? else {
        return Err(AdminError::KeyNotFound(prefix.to_owned()));
    };
    let secret = secrets::new_secret("cs_")?;
    let sealed = secrets::seal(master_keys, &secret, &api_key_binding(tenant, prefix))?;
    transact(client, async |tx| {
        if !store::api_keys::rotate_secret(tx, prefix, &sealed, until, now).await? {
            return Err(AdminError::KeyRevoked(prefix.to_owned()));
        }
        record(tx, actor, AuditAction::RotateKeySecret, prefix, Some(tenant)).await
    })
    .await?;
    Ok(RotatedKey { prefix: prefix.to_owned(), secret: secret.reveal().to_owned() })
}

/// Ends the overlap of a rotation: signatures with the old secret are refused from now on. Changes nothing if there is none.
pub async fn end_overlap(client: &mut Client, actor: &Actor, prefix: &str) -> Result<Key, AdminError> {
    transact(client, async |tx| {
        let changed = store::api_keys::end_overlap(tx, prefix).await?;
        recorded(tx, actor, AuditAction::EndKeyOverlap, prefix, changed).await
    })
    .await
}
