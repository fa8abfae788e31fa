//! Secrets: made by the system's random generator, sealed before they are stored, shown once (D5). The master key is verified before
//! anything is sealed under it.

use crate::{AdminError, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, TimeDelta, Utc};
use common::db::{MasterKeyState, verify_master_key};
use common::sealed::{MasterKeys, Secret};
use rand::TryRng as _;
use rand::rngs::SysRng;
use std::time::Duration;
use tokio_postgres::Client;

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
