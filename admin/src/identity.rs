//! Who is signed in to the settings area, and by what, and what they have sent: what links, sessions and spent forms store.

use crate::input::Name;
use chrono::{DateTime, Utc};
use common::model::TenantId;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

common::named! {
    /// What somebody who is signed in may do. Each role may do what the ones before it may.
    /// Names are those in commands and in the database.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Role {
        /// Sees the pages of one tenant.
        Viewer = "viewer",
        /// Changes the settings of one tenant.
        Admin = "admin",
        /// Sees and changes the settings of all tenants, and the queues.
        Operator = "operator",
    }
}

common::named! {
    /// How somebody signed in. The names are stored. Names are also in audit records.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SignInMethod {
        /// A link of `connectctl console login`.
        Link = "link",
        /// A link for a partner of a tenant.
        PartnerLink = "partner-link",
        /// An OpenID Connect provider.
        OpenIdConnect = "openid-connect",
        /// Headers of a proxy.
        Proxy = "proxy",
    }
}

/// Who signs in, with which rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedInIdentity {
    /// What they may do.
    pub role: Role,
    /// The tenant that they are limited to; `None` exactly for operators.
    pub tenant: Option<TenantId>,
    /// Their name, as the creator of the link gave it; or their email or id, as the identity provider gave it.
    pub person: Name,
}

/// What is stored of a token: it cannot be used to sign in.
pub(crate) struct TokenHash([u8; 32]);

impl TokenHash {
    pub(crate) fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A session that has neither been revoked nor passed its idle or absolute limit.
#[derive(Clone, Debug)]
pub struct Session {
    /// Who is signed in.
    pub identity: SignedInIdentity,
    /// Slug of the tenant that they are limited to; `None` exactly for operators.
    pub tenant_slug: Option<String>,
    /// How they signed in.
    pub method: SignInMethod,
    /// When the session was last used, as it is stored.
    pub(crate) last_used_at: DateTime<Utc>,
}

impl Session {
    /// What the person may do.
    pub const fn role(&self) -> Role {
        self.identity.role
    }

    /// The tenant that the person is limited to.
    pub const fn tenant(&self) -> Option<TenantId> {
        self.identity.tenant
    }
}

/// A form that a page of a session has sent. [`verify`](Self::verify) alone makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentForm {
    /// That of the session.
    pub(crate) tenant: Option<TenantId>,
    /// UUIDv7.
    pub(crate) id: Uuid,
    /// SHA-256 of what was sent, and where to.
    pub(crate) content_hash: [u8; 32],
}

/// What a form has led to: what is shown when it is sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormResult {
    /// The path of a page. In one that is not stored yet, `{target}` stands for the target of the audit record.
    pub page: String,
    /// The heading of the page that has shown a secret; `None` if the browser was redirected.
    pub heading: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_may_do_what_the_ones_before_it_may() {
        assert!(Role::Viewer < Role::Admin && Role::Admin < Role::Operator);
        for role in Role::ALL {
            assert_eq!(Role::parse(role.as_str()), Some(role));
        }
        assert_eq!(Role::parse("Operator"), None);
    }
}
