//! Secrets: made from the system's generator, sealed before they are stored, shown once (D5).

use anyhow::{Context as _, bail};
use common::db::{MasterKeyState, verify_master_key};
use common::sealed::{MasterKey, Secret};
use common::settings::SealingSettings;
use rand::TryRng as _;
use rand::rngs::SysRng;
use tokio_postgres::Client;

const BASE64_URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Refuses a master key that differs from the one that the database was set up with. Where no program has written the canary
/// yet, a key that can't open the newest secret is taken: it may be the one that replaces a key that was lost.
pub(crate) async fn verify(client: &Client, master_key: &MasterKey) -> anyhow::Result<()> {
    match verify_master_key(client, master_key).await? {
        MasterKeyState::Matches | MasterKeyState::DoesNotOpenNewestSecret => Ok(()),
        MasterKeyState::Differs => bail!(
            "CONNECT_MASTER_KEY differs from the master key that the database was set up with; use the key of the programs"
        ),
    }
}

/// Seals a secret for the row that `binding` names.
pub(crate) fn seal(with: &SealingSettings, secret: &Secret, binding: &str) -> anyhow::Result<Vec<u8>> {
    Ok(with.master_key.seal(secret, binding, random()?))
}

/// A new secret: the base64url text of 32 random bytes, after `start`.
pub(crate) fn new_secret(start: &str) -> anyhow::Result<Secret> {
    Ok(Secret::new(format!("{start}{}", base64_url(random()?))))
}

/// A new key prefix. It is no secret, but two never meet.
pub(crate) fn new_prefix() -> anyhow::Result<String> {
    Ok(format!("ck_{:016x}", u64::from_ne_bytes(random()?)))
}

/// 42 characters of 6 random bits and one of 4, as the text of 32 bytes ends.
fn base64_url(random: [u8; 43]) -> String {
    let [most @ .., last] = random;
    let sextets = most.into_iter().map(|byte| byte & 0b11_1111).chain([last & 0b11_1100]);
    sextets.map(|sextet| char::from(BASE64_URL[usize::from(sextet)])).collect()
}

fn random<const N: usize>() -> anyhow::Result<[u8; N]> {
    let mut bytes = [0; N];
    SysRng.try_fill_bytes(&mut bytes).context("the system's random generator fails")?;
    Ok(bytes)
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
        assert!(
            digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        );
        assert_ne!(prefix, new_prefix().unwrap());
    }
}
