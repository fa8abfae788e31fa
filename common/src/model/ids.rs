//! Identifiers. Record ids are created as UUIDv7 (D18), with a type each, so that they cannot be confused.

use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;

macro_rules! record_id {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl $name {
            /// Parses a UUID of 36 characters, of any version and in either case; `None` for any other text.
            pub fn parse(text: &str) -> Option<Self> {
                (text.len() == 36).then(|| Uuid::try_parse(text).ok().map(Self)).flatten()
            }
        }
    )+};
}

record_id! {
    /// A tenant: a travel agency.
    TenantId,
    /// A client: a traveler or a company account.
    ClientId,
    /// A lead, which partners know as an enquiry.
    LeadId,
    /// A lead's trip workspace.
    TripId,
    /// A proposal of a trip.
    ProposalId,
    /// A trip discovery record.
    DiscoveryId,
}

/// Number of slots, each of which one dispatcher works for at a time.
pub const SLOTS: usize = 64;

impl TenantId {
    /// The slot that the tenant belongs to, 0 to 63: the lowest bits of its id, as the schema computes it.
    pub const fn slot(self) -> i16 {
        (self.0.as_bytes()[15] & 63) as i16
    }
}

/// Visible prefix of an API key: 1 to 64 characters of `A-Z a-z 0-9 _ -`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyPrefix(String);

impl KeyPrefix {
    /// `None` when the text does not have the form of a prefix, so that no key can have it.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=64).contains(&text.len());
        let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        (fits && plain).then(|| Self(text.to_owned()))
    }

    /// The prefix as sent in `X-Connect-Key`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for KeyPrefix {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("not a key prefix")
    }
}

impl From<KeyPrefix> for String {
    fn from(prefix: KeyPrefix) -> Self {
        prefix.0
    }
}

impl fmt::Display for KeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
