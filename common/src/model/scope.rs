//! Scopes: the permissions of an API key (specification: Scopes).

use serde::{Deserialize, Serialize};
use std::fmt;

/// A permission of an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Allows `POST /events`.
    EventsIngest,
    /// Read and look up clients.
    ClientsRead,
    /// Create and update clients.
    ClientsWrite,
    /// Read leads and trips.
    LeadsRead,
    /// Create and change leads and trips.
    LeadsWrite,
    /// The two credit events, besides `events:ingest`.
    CreditWrite,
}

impl Scope {
    /// Each scope once.
    pub const ALL: [Self; 6] = [
        Self::EventsIngest,
        Self::ClientsRead,
        Self::ClientsWrite,
        Self::LeadsRead,
        Self::LeadsWrite,
        Self::CreditWrite,
    ];

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EventsIngest => "events:ingest",
            Self::ClientsRead => "clients:read",
            Self::ClientsWrite => "clients:write",
            Self::LeadsRead => "leads:read",
            Self::LeadsWrite => "leads:write",
            Self::CreditWrite => "credit:write",
        }
    }

    /// The scope of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The scopes of a key, serialized as their names. Unknown names, such as those of a newer release, are ignored when they
/// are deserialized.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub struct Scopes(Vec<Scope>);

impl Scopes {
    /// Parses names; the error contains the first unknown one.
    pub fn parse<S: AsRef<str>>(names: &[S]) -> Result<Self, String> {
        let mut scopes = Vec::new();
        for name in names {
            let name = name.as_ref();
            let scope = Scope::parse(name).ok_or_else(|| format!("unknown scope {name:?}"))?;
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        Ok(Self(scopes))
    }

    /// Whether the key has `scope`.
    pub fn has(&self, scope: Scope) -> bool {
        self.0.contains(&scope)
    }

    /// The names on the wire, in the order in which they were granted.
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(Scope::to_string).collect()
    }
}

impl From<Vec<String>> for Scopes {
    fn from(names: Vec<String>) -> Self {
        Self(names.iter().filter_map(|name| Scope::parse(name)).collect())
    }
}

impl From<Scopes> for Vec<String> {
    fn from(scopes: Scopes) -> Self {
        scopes.names()
    }
}
