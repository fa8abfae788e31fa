//! Secrets: sealed at rest (D5), redacted wherever they might be printed.

use crate::model::TenantId;
use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use serde::Serialize;
use sha2::Sha256;
use std::fmt;
use thiserror::Error;
use uuid::Uuid;

const NONCE_BYTES: usize = 12;
const ID_BYTES: usize = 4;
/// First bytes of a sealed value.
const MAGIC: &[u8] = b"csv";
/// Version of the format of sealed values: header, nonce, ciphertext; the header is authenticated as well.
const VERSION: u8 = 1;
/// Bytes of the header: mark, version and key id.
pub const HEADER_BYTES: usize = MAGIC.len() + 1 + ID_BYTES;

/// Text that must not be printed. `Debug` redacts it.
///
/// Own code instead of `secrecy`, which would also wipe the memory: the copies in the libraries that use the text, such as those
/// for connections, would remain.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text whose `Debug` is redacted from now on.
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The plain text; never log it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// The associated data that binds the sealed secret of an API key to its row.
pub fn api_key_binding(tenant: TenantId, prefix: &str) -> String {
    format!("key/{tenant}/{prefix}")
}

/// The associated data that binds the sealed secrets of a subscription to their row.
pub fn subscription_binding(tenant: TenantId, subscription: Uuid) -> String {
    format!("subscription/{tenant}/{subscription}")
}

/// The associated data that binds the sealed URL of a subscription to its row.
pub fn subscription_url_binding(tenant: TenantId, subscription: Uuid) -> String {
    format!("subscription-url/{tenant}/{subscription}")
}

/// Names a master key without revealing it: the first four bytes of a value that is derived from the key. It is stored in
/// what the key seals, and shown to operators in logs, metrics and commands.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MasterKeyId([u8; ID_BYTES]);

impl MasterKeyId {
    /// The id that a stored value names; `None` if it is no sealed value.
    pub fn of_sealed(sealed: &[u8]) -> Option<Self> {
        let rest = sealed.strip_prefix(MAGIC)?.strip_prefix(&[VERSION])?;
        rest.first_chunk().copied().map(Self)
    }
}

impl fmt::Display for MasterKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for MasterKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The operator's key, under which secrets are sealed with AES-256-GCM, and from which other keys are derived.
#[derive(Clone)]
pub struct MasterKey {
    cipher: Aes256Gcm,
    derivation: Hmac<Sha256>,
    id: MasterKeyId,
}

/// Secret decryption failed: the value was sealed under another master key or for another row, or was changed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("a stored secret cannot be decrypted with CONNECT_MASTER_KEY or CONNECT_MASTER_KEY_PREVIOUS")]
pub struct DecryptionFailed;

impl MasterKey {
    /// Reads 32 bytes in base64.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let bytes = STANDARD.decode(text.trim()).map_err(|_| "must be base64")?;
        let cipher = Aes256Gcm::new_from_slice(&bytes).map_err(|_| "must be 32 bytes in base64")?;
        let derivation = Hmac::<Sha256>::new_from_slice(&bytes).expect("HMAC takes keys of any length");
        let [a, b, c, d, ..] = expand(&derivation, "connect/key-id/v1");
        Ok(Self { cipher, derivation, id: MasterKeyId([a, b, c, d]) })
    }

    /// Names the key without revealing it.
    pub const fn id(&self) -> MasterKeyId {
        self.id
    }

    /// Derives the key of one purpose: HKDF-Expand of RFC 5869 with SHA-256, one block, `purpose` as `info`. The
    /// extraction is left out, as RFC 5869 (3.3) allows for a key that is random as a whole.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        expand(&self.derivation, purpose)
    }

    /// The first bytes of every value that this key seals: a mark, the version of the format, and the key's id.
    pub fn header(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        let (mark, id) = header.split_at_mut(HEADER_BYTES - ID_BYTES);
        mark.copy_from_slice(&[MAGIC, &[VERSION]].concat());
        id.copy_from_slice(&self.id.0);
        header
    }

    /// Seals `secret`: header, nonce, and ciphertext with its tag. The same `binding` (tenant and name) is needed to open
    /// it, so that a sealed secret cannot be moved to another row. `nonce` must never repeat under one key: 12 random bytes.
    pub fn seal(&self, secret: &Secret, binding: &str, nonce: [u8; NONCE_BYTES]) -> Vec<u8> {
        let header = self.header();
        let aad = [&header, binding.as_bytes()].concat();
        let payload = Payload { msg: secret.0.as_bytes(), aad: &aad };
        let text = self.cipher.encrypt(&Nonce::from(nonce), payload).expect("secrets are far below the cipher's limit");
        [header.as_slice(), &nonce, &text].concat()
    }

    /// Opens what [`seal`](Self::seal) returned.
    pub fn open(&self, sealed: &[u8], binding: &str) -> Result<Secret, DecryptionFailed> {
        let header = self.header();
        let rest = sealed.strip_prefix(&header).ok_or(DecryptionFailed)?;
        self.decrypt(rest, &[&header, binding.as_bytes()].concat())
    }

    fn decrypt(&self, nonce_and_text: &[u8], aad: &[u8]) -> Result<Secret, DecryptionFailed> {
        let (nonce, text) = nonce_and_text.split_first_chunk::<NONCE_BYTES>().ok_or(DecryptionFailed)?;
        let plain =
            self.cipher.decrypt(&Nonce::from(*nonce), Payload { msg: text, aad }).map_err(|_| DecryptionFailed)?;
        String::from_utf8(plain).map(Secret).map_err(|_| DecryptionFailed)
    }
}

/// HKDF-Expand (RFC 5869) of one block.
fn expand(derivation: &Hmac<Sha256>, purpose: &str) -> [u8; 32] {
    derivation.clone().chain_update(purpose).chain_update([1]).finalize().into_bytes().into()
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// The master key in use, and during a rotation the other one, which opens what is sealed under it and verifies messages
/// that are signed with it. Nothing is sealed or signed with the other one.
#[derive(Clone, Debug)]
pub struct MasterKeys {
    /// Seals and signs.
    pub current: MasterKey,
    /// `CONNECT_MASTER_KEY_PREVIOUS`, which only opens and verifies: the key before the current one, or, while programs are prepared
    /// for a rotation, the next one.
    pub previous: Option<MasterKey>,
}

impl MasterKeys {
    /// Tries the current key, then the previous one. A value is opened only by the key whose id its header has.
    pub fn open(&self, sealed: &[u8], binding: &str) -> Result<Secret, DecryptionFailed> {
        self.open_with(sealed, binding).map(|(secret, _)| secret)
    }

    /// The same, with the key that opened it.
    pub fn open_with(&self, sealed: &[u8], binding: &str) -> Result<(Secret, &MasterKey), DecryptionFailed> {
        let mut keys = std::iter::once(&self.current).chain(&self.previous);
        keys.find_map(|key| Some((key.open(sealed, binding).ok()?, key))).ok_or(DecryptionFailed)
    }
}

crate::named! {
    /// Which master key a value was sealed under. Names are those in JSON and in labels.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum MasterKeyRole {
        /// `CONNECT_MASTER_KEY`.
        Current = "current",
        /// `CONNECT_MASTER_KEY_PREVIOUS`.
        Previous = "previous",
        /// Neither of them.
        Other = "other",
    }
}

impl MasterKeys {
    /// Which key has the id that a value names.
    pub fn role_of(&self, id: &str) -> MasterKeyRole {
        let is = |key: &MasterKey| id == key.id.to_string();
        if is(&self.current) {
            MasterKeyRole::Current
        } else if self.previous.as_ref().is_some_and(is) {
            MasterKeyRole::Previous
        } else {
            MasterKeyRole::Other
        }
    }
}

impl From<MasterKey> for MasterKeys {
    fn from(current: MasterKey) -> Self {
        Self { current, previous: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(fill: u8) -> MasterKey {
        MasterKey::parse(&STANDARD.encode([fill; 32])).unwrap()
    }

    #[test]
    fn a_sealed_secret_opens_only_with_its_binding_and_its_key() {
        let secret = Secret::new("s3cret".to_owned());
        let sealed = key(1).seal(&secret, "a/b", [7; 12]);
        assert_eq!(key(1).open(&sealed, "a/b"), Ok(secret));
        assert_eq!(key(1).open(&sealed, "a/c"), Err(DecryptionFailed));
        assert_eq!(key(2).open(&sealed, "a/b"), Err(DecryptionFailed));
        assert_eq!(key(1).open(&sealed[..5], "a/b"), Err(DecryptionFailed));
    }

    #[test]
    fn a_value_names_its_key_and_its_header_cannot_be_changed() {
        let mut sealed = key(1).seal(&Secret::new("s3cret".to_owned()), "a/b", [7; 12]);
        assert_eq!(MasterKeyId::of_sealed(&sealed), Some(key(1).id()));
        assert_ne!(key(1).id(), key(2).id());
        assert_eq!(key(1).open(&sealed[HEADER_BYTES..], "a/b"), Err(DecryptionFailed), "without the header");
        sealed[HEADER_BYTES - 1] ^= 1;
        assert_eq!(key(1).open(&sealed, "a/b"), Err(DecryptionFailed), "with another id");
    }

    #[test]
    fn the_previous_key_opens_and_does_not_seal() {
        let keys = MasterKeys { current: key(2), previous: Some(key(1)) };
        let secret = Secret::new("s3cret".to_owned());
        for sealer in [key(1), key(2)] {
            let sealed = sealer.seal(&secret, "a", [7; 12]);
            let (opened, by) = keys.open_with(&sealed, "a").unwrap();
            assert_eq!((opened, by.id()), (secret.clone(), sealer.id()));
        }
        assert_eq!(keys.open(&key(3).seal(&secret, "a", [7; 12]), "a"), Err(DecryptionFailed));
        let expected = Err(DecryptionFailed);
        assert_eq!(MasterKeys::from(key(2)).open(&key(1).seal(&secret, "a", [7; 12]), "a"), expected);
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
