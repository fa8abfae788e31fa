//! Secrets: sealed at rest (D5), redacted wherever they might be printed.

use crate::model::TenantId;
use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fmt;
use thiserror::Error;
use uuid::Uuid;

const NONCE_BYTES: usize = 12;

/// Text that must not be printed. `Debug` redacts it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The secret itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// What binds the sealed secret of an API key to its row.
pub fn key_binding(tenant: TenantId, prefix: &str) -> String {
    format!("key/{tenant}/{prefix}")
}

/// What binds the sealed secrets of a subscription to their row.
pub fn subscription_binding(tenant: TenantId, subscription: Uuid) -> String {
    format!("subscription/{tenant}/{subscription}")
}

/// What binds the sealed URL of a subscription to its row.
pub fn subscription_url_binding(tenant: TenantId, subscription: Uuid) -> String {
    format!("subscription-url/{tenant}/{subscription}")
}

/// The operator's key, under which secrets are sealed with AES-256-GCM, and from which other keys are derived.
#[derive(Clone)]
pub struct MasterKey {
    cipher: Aes256Gcm,
    derivation: Hmac<Sha256>,
}

/// A sealed secret that can't be opened: another master key, or changed bytes.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("a stored secret can't be opened with this CONNECT_MASTER_KEY")]
pub struct CannotOpen;

impl MasterKey {
    /// Reads 32 bytes in base64.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let bytes = STANDARD.decode(text.trim()).map_err(|_| "must be base64")?;
        let cipher = Aes256Gcm::new_from_slice(&bytes).map_err(|_| "must be 32 bytes in base64")?;
        let derivation = Hmac::<Sha256>::new_from_slice(&bytes).expect("HMAC takes keys of any length");
        Ok(Self { cipher, derivation })
    }

    /// Derives the key of one purpose: HKDF-Expand of RFC 5869 with SHA-256, one block, `purpose` as `info`. The
    /// extraction is left out, as RFC 5869 (3.3) allows for a key that is random as a whole.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        self.derivation.clone().chain_update(purpose).chain_update([1]).finalize().into_bytes().into()
    }

    /// Seals `secret`; `binding` (agency and name) must be the same to open it, so that a sealed secret can't be
    /// moved to another row. `nonce` must never repeat under one key: 12 random bytes.
    pub fn seal(&self, secret: &Secret, binding: &str, nonce: [u8; NONCE_BYTES]) -> Vec<u8> {
        let payload = Payload { msg: secret.0.as_bytes(), aad: binding.as_bytes() };
        let text = self
            .cipher
            .encrypt(&Nonce::from(nonce), payload)
            .expect("secrets are far below the cipher's limit");
        [nonce.as_slice(), &text].concat()
    }

    /// Opens what [`seal`](Self::seal) made.
    pub fn open(&self, sealed: &[u8], binding: &str) -> Result<Secret, CannotOpen> {
        let (nonce, text) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or(CannotOpen)?;
        let payload = Payload { msg: text, aad: binding.as_bytes() };
        let plain = self.cipher.decrypt(&Nonce::from(*nonce), payload).map_err(|_| CannotOpen)?;
        String::from_utf8(plain).map(Secret).map_err(|_| CannotOpen)
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(fill: u8) -> MasterKey {
        MasterKey::parse(&STANDARD.encode([fill; 32])).unwrap()
    }

    #[test]
    fn a_sealed_secret_opens_only_in_its_place_and_with_its_key() {
        let secret = Secret::new("s3cret".to_owned());
        let sealed = key(1).seal(&secret, "a/b", [7; 12]);
        assert_eq!(key(1).open(&sealed, "a/b"), Ok(secret));
        assert_eq!(key(1).open(&sealed, "a/c"), Err(CannotOpen));
        assert_eq!(key(2).open(&sealed, "a/b"), Err(CannotOpen));
        assert_eq!(key(1).open(&sealed[..5], "a/b"), Err(CannotOpen));
    }

    #[test]
    fn derived_keys_differ_by_purpose_and_master_key() {
        assert_eq!(key(1).derive("a"), key(1).derive("a"));
        assert_ne!(key(1).derive("a"), key(1).derive("b"));
        assert_ne!(key(1).derive("a"), key(2).derive("a"));
    }

    #[test]
    fn secrets_are_never_printed() {
        let printed = format!("{:?} {:?}", Secret::new("s3cret".to_owned()), key(1));
        assert_eq!(printed, "[redacted] [redacted]");
        assert!(MasterKey::parse("c2hvcnQ=").is_err() && MasterKey::parse("%").is_err());
    }
}
