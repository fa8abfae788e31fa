//! Scopes: the permissions of an API key (specification: Scopes).

use serde::{Deserialize, Serialize};

crate::named! {
    /// A permission of an API key. Names are those on the wire.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Scope {
        /// Allows `POST /events`.
        EventsIngest = "events:ingest",
        /// Read and look up clients.
        ClientsRead = "clients:read",
        /// Create and update clients.
        ClientsWrite = "clients:write",
        /// Read leads and trips.
        LeadsRead = "leads:read",
        /// Create and change leads and trips.
        LeadsWrite = "leads:write",
        /// The two credit events, besides `events:ingest`.
        CreditWrite = "credit:write",
        /// Read the feed of the key's subscription (D46).
        WebhooksRead = "webhooks:read",
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
            let scope = Scope::parse(name).ok_or_else(|| {
                let known: Vec<&str> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
                format!("unknown scope {name:?}; the scopes are {}", known.join(", "))
            })?;
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
