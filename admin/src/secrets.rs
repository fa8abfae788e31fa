//! Secrets: made by the system's random generator, sealed before they are stored, shown once (D5). The master key is verified before
//! anything is sealed under it, and rotated by sealing every stored value again.

use crate::audit::{Actor, AuditAction, record_before};
use crate::store::sealed_values::SealedRow;
use crate::{AdminError, Observer, ProgressStep, Result, store, transact};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, TimeDelta, Utc};
use common::db::{MasterKeyState, rewrap_canary, verify_master_key};
use common::erasure::ERASURE_KEY_BINDING;
use common::model::TenantId;
use common::sealed::{MasterKeyRole, MasterKeys, Secret};
use rand::TryRng as _;
use rand::rngs::SysRng;
use serde::Serialize;
use std::time::Duration;
use tokio_postgres::Client;
use uuid::Uuid;

const BASE64_URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Seals a secret under the current master key for the row that `binding` names.
pub(crate) fn seal(master_keys: &MasterKeys, secret: &Secret, binding: &str) -> Result<Vec<u8>> {
    Ok(master_keys.current.seal(secret, binding, random()?))
}

/// The end of a time that begins now, of a key or of the overlap of two secrets; an error begins with `what`.
pub(crate) fn end(now: DateTime<Utc>, span: Duration, what: &str) -> Result<DateTime<Utc>> {
    let span = TimeDelta::from_std(span).map_err(|error| AdminError::InvalidInput(error.to_string()))?;
    let too_far = || AdminError::InvalidInput(format!("{what} too far in the future"));
    now.checked_add_signed(span).ok_or_else(too_far)
}

/// A new secret: 256 random bits as base64url, after `start`.
pub(crate) fn new_secret(start: &str) -> Result<Secret> {
    Ok(Secret::new(format!("{start}{}", base64_url(random()?))))
}

/// A new secret of a subscription, in the form of Standard Webhooks: 32 random bytes as base64.
pub(crate) fn new_signing_secret() -> Result<Secret> {
    Ok(Secret::new(format!("whsec_{}", STANDARD.encode(random::<32>()?))))
}

/// A new key prefix: unique, but not secret.
pub(crate) fn new_prefix() -> Result<String> {
    Ok(format!("ck_{:016x}", u64::from_ne_bytes(random()?)))
}

/// 256 random bits as base64url, like 32 bytes: of 42 random bytes it uses 6 bits each, of the last one 4.
fn base64_url(random: [u8; 43]) -> String {
    let [most @ .., last] = random;
    let sextets = most.into_iter().map(|byte| byte & 0b11_1111).chain([last & 0b11_1100]);
    sextets.map(|sextet| char::from(BASE64_URL[usize::from(sextet)])).collect()
}

/// Random bytes of the system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    SysRng.try_fill_bytes(&mut bytes).map_err(|error| AdminError::Random(error.to_string()))?;
    Ok(bytes)
}

/// Refuses master keys of which neither is the one that the database was set up with.
pub async fn verify_master_keys(client: &Client, master_keys: &MasterKeys) -> Result<()> {
    match verify_master_key(client, master_keys).await? {
        MasterKeyState::Matches | MasterKeyState::MatchesPrevious => Ok(()),
        MasterKeyState::Differs(_) => Err(AdminError::MasterKeyDiffers),
    }
}

/// The result of a rotation.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RotationReport {
    /// The id of the current master key.
    pub key_id: String,
    /// Values that this run has sealed under the current key.
    pub rewrapped: u64,
    /// Values that are still to be sealed under it: another run is needed.
    pub remaining: u64,
    /// Values that neither the current key nor the previous one opens, such as secrets of keys that were revoked before an
    /// earlier master key was lost. Nothing can open them.
    pub unreadable: u64,
}

/// The number of values that are sealed under one master key.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SealedCount {
    /// The id of the key.
    pub key_id: String,
    /// Which key it is.
    pub key: MasterKeyRole,
    /// The number of values.
    pub values: u64,
}

#[derive(Clone, Copy)]
enum Table {
    ApiKeys,
    Subscriptions,
}

/// How many values one pass over the tables has sealed again, and how many it could not open.
#[derive(Default)]
struct PassCounts {
    rewrapped: u64,
    unreadable: u64,
}

/// The number of sealed values by master key.
pub async fn count(client: &Client, master_keys: &MasterKeys) -> Result<Vec<SealedCount>> {
    let counts = store::sealed_values::counts(client).await?;
    let counted = |(key_id, values): (String, u64)| {
        let key = master_keys.role_of(&key_id);
        SealedCount { key_id, key, values }
    };
    Ok(counts.into_iter().map(counted).collect())
}

/// Seals every value again that is not sealed under the current master key: secrets and URLs of all tenants, of revoked keys
/// and removed subscriptions as well. The canary is sealed again last. Until then, a program that has only the current key is
/// not ready.
///
/// Works in batches of 100 rows, each in a transaction of its own: what an interrupted run has sealed stays sealed, and another run
/// continues. Programs that have both keys serve requests meanwhile. Runs at the same time do not disturb each other.
pub async fn rotate(
    client: &mut Client, actor: &Actor, master_keys: &MasterKeys, observer: &mut impl Observer,
) -> Result<RotationReport> {
    verify_master_keys(client, master_keys).await?;
    let total = count_to_rewrap(client, master_keys).await?;
    let key_id = master_keys.current.id().to_string();
    record_before(client, actor, AuditAction::RotateMasterKey, &key_id, None).await?;
    observer.begin(ProgressStep::RewrapSecrets, total);
    let mut rewrapped = 0;
    let unreadable = loop {
        let mut pass = PassCounts::default();
        for table in [Table::ApiKeys, Table::Subscriptions] {
            rewrap_table(client, master_keys, table, &mut pass, |done| observer.reached(rewrapped + done)).await?;
        }
        rewrapped += pass.rewrapped;
        // Values that were sealed under the previous key meanwhile are found by another pass.
        if pass.rewrapped == 0 {
            break pass.unreadable;
        }
    };
    rewrapped += rewrap_erasure_key(client, master_keys).await?;
    // The canary comes last, once it is the only value left: it shows which key the database needs.
    if count_to_rewrap(client, master_keys).await?.saturating_sub(unreadable) <= 1
        && rewrap_canary(client, master_keys).await?
    {
        rewrapped += 1;
    }
    let remaining = count_to_rewrap(client, master_keys).await?.saturating_sub(unreadable);
    observer.end(rewrapped);
    Ok(RotationReport { key_id, rewrapped, remaining, unreadable })
}

/// The number of values that are not sealed under the current key.
async fn count_to_rewrap(client: &Client, master_keys: &MasterKeys) -> Result<u64> {
    let counts = count(client, master_keys).await?;
    Ok(counts.iter().filter(|counted| counted.key != MasterKeyRole::Current).map(|counted| counted.values).sum())
}

/// Seals the key of erased identities under the current key, and returns the number of values that it has changed.
async fn rewrap_erasure_key(client: &Client, master_keys: &MasterKeys) -> Result<u64> {
    let Some(was) = store::erasures::key(client).await? else { return Ok(0) };
    if was.starts_with(&master_keys.current.header()) {
        return Ok(0);
    }
    // One that no key opens counts as remaining, not as unreadable; the canary is not rewrapped then.
    let Ok(secret) = master_keys.open(&was, ERASURE_KEY_BINDING) else { return Ok(0) };
    let now = seal(master_keys, &secret, ERASURE_KEY_BINDING)?;
    Ok(store::erasures::rewrap_key(client, &was, &now).await?.into())
}

async fn rewrap_table(
    client: &mut Client, master_keys: &MasterKeys, table: Table, pass: &mut PassCounts, mut reached: impl FnMut(u64),
) -> Result<()> {
    let header = master_keys.current.header();
    let (mut tenant, mut name) = (TenantId(Uuid::nil()), String::new());
    loop {
        let mut page = match table {
            Table::ApiKeys => store::api_keys::page_to_rewrap(client, (tenant, &name), &header).await?,
            Table::Subscriptions => {
                let id = Uuid::try_parse(&name).unwrap_or_default();
                store::subscriptions::page_to_rewrap(client, (tenant, id), &header).await?
            }
        };
        let Some(last) = page.last() else { return Ok(()) };
        (tenant, name) = (last.tenant, last.name.clone());
        for row in &mut page {
            pass.unreadable += seal_again(row, master_keys)?;
        }
        page.retain(|row| row.values.iter().any(|value| value.now != value.was));
        let work = async |tx: &tokio_postgres::Transaction<'_>| match table {
            Table::ApiKeys => store::api_keys::rewrap(tx, &page).await,
            Table::Subscriptions => store::subscriptions::rewrap(tx, &page).await,
        };
        pass.rewrapped += transact(client, work).await?;
        reached(pass.rewrapped);
    }
}

/// Seals the values of a row under the current key, and returns how many of them no key opens.
fn seal_again(row: &mut SealedRow, master_keys: &MasterKeys) -> Result<u64> {
    let mut unreadable = 0;
    for value in &mut row.values {
        let Some(was) = &value.was else { continue };
        if was.starts_with(&master_keys.current.header()) {
            continue;
        }
        match master_keys.open(was, &value.binding) {
            Ok(secret) => value.now = Some(seal(master_keys, &secret, &value.binding)?),
            Err(_) => unreadable += 1,
        }
    }
    Ok(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_base64url_of_32_bytes() {
        assert_eq!(base64_url([0; 43]), "A".repeat(43));
        assert_eq!(base64_url([255; 43]), format!("{}8", "_".repeat(42)));
        let (one, other) = (new_secret("cs_").unwrap(), new_secret("cs_").unwrap());
        assert!(one.reveal().starts_with("cs_") && one.reveal().len() == 46 && one != other);
    }

    #[test]
    fn prefixes_are_16_hex_digits() {
        let prefix = new_prefix().unwrap();
        let digits = prefix.strip_prefix("ck_").unwrap();
        assert!(digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
        assert_ne!(prefix, new_prefix().unwrap());
    }
}
