//! What remains of the identities of a person who was erased: hashes under a key of their own, which is sealed under the master
//! key (D32).

use crate::model::TenantId;
use crate::sealed::Secret;
use hmac::{Hmac, KeyInit as _, Mac};
use sha2::Sha256;
use std::fmt;

/// What the sealed key of the hashes is bound to.
pub const ERASURE_KEY_BINDING: &str = "erasure-key";

/// A keyed hash of an identity of a tenant.
pub type IdentityHash = [u8; 32];

/// An identity of a person, in the form that is compared (D10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersonIdentity<T> {
    /// An email as it is compared (D37).
    Email(T),
    /// The digits of a phone number.
    Phone(T),
    /// The caller's own id of the person.
    ExternalId(T),
}

impl PersonIdentity<String> {
    /// The same identity, borrowed.
    pub fn as_str(&self) -> PersonIdentity<&str> {
        match self {
            Self::Email(email) => PersonIdentity::Email(email),
            Self::Phone(digits) => PersonIdentity::Phone(digits),
            Self::ExternalId(id) => PersonIdentity::ExternalId(id),
        }
    }
}

/// The key of the hashes. It survives rotations of the master key, which seal it again.
#[derive(Clone)]
pub struct ErasureKey(Hmac<Sha256>);

impl fmt::Debug for ErasureKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl ErasureKey {
    /// Reads a key of 32 bytes in hexadecimal, as it is sealed. `None` for another text.
    pub fn parse(opened: &Secret) -> Option<Self> {
        let bytes: [u8; 32] = hex::decode(opened.reveal()).ok()?.try_into().ok()?;
        Hmac::new_from_slice(&bytes).ok().map(Self)
    }

    /// The text of a key, which is sealed.
    pub fn text_of(random: [u8; 32]) -> Secret {
        Secret::new(hex::encode(random))
    }

    /// The hash of an identity. The same identity has different hashes in different tenants.
    pub fn hash(&self, tenant: TenantId, identity: PersonIdentity<&str>) -> IdentityHash {
        let (kind, text) = match identity {
            PersonIdentity::Email(email) => ("email", email),
            PersonIdentity::Phone(digits) => ("phone", digits),
            PersonIdentity::ExternalId(id) => ("external", id),
        };
        let mac = self.0.clone().chain_update(tenant.0).chain_update(kind).chain_update([0]);
        mac.chain_update(text).finalize().into_bytes().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_hash_depends_on_key_tenant_kind_and_identity() {
        let key = |byte| ErasureKey::parse(&ErasureKey::text_of([byte; 32])).expect("a key");
        let tenant = |number| TenantId(Uuid::from_u128(number));
        let hashes = [
            key(1).hash(tenant(1), PersonIdentity::Email("1")),
            key(2).hash(tenant(1), PersonIdentity::Email("1")),
            key(1).hash(tenant(2), PersonIdentity::Email("1")),
            key(1).hash(tenant(1), PersonIdentity::Phone("1")),
            key(1).hash(tenant(1), PersonIdentity::ExternalId("1")),
            key(1).hash(tenant(1), PersonIdentity::Email("2")),
        ];
        for (at, hash) in hashes.iter().enumerate() {
            assert!(!hashes[at + 1..].contains(hash), "{at}");
        }
        assert_eq!(hashes[0], key(1).hash(tenant(1), PersonIdentity::Email("1")));
    }

    #[test]
    fn a_text_that_is_no_key_is_refused() {
        for wrong in ["", "00", "no hexadecimal digits"] {
            assert!(ErasureKey::parse(&Secret::new(wrong.to_owned())).is_none(), "{wrong}");
        }
        assert_eq!(format!("{:?}", ErasureKey::parse(&ErasureKey::text_of([7; 32]))), "Some([redacted])");
    }
}
