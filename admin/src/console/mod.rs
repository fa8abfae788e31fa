//! Sign-in to the settings area: links that work once, people of an identity provider, and the sessions that both begin. Only
//! hashes of tokens are stored.

mod groups;
mod links;
mod partners;
mod pending;
mod sessions;
mod verified_sign_in;

pub use groups::GroupRoles;
pub use links::{LINK_LIFETIME, LoginLink, NewLink, create_link, is_link_valid, use_link};
pub use partners::{NewPartnerLink, PARTNER_LINK_LIFETIME, Revoked, create_partner_link, revoke_partners};
pub use pending::{PENDING_LIFETIME, PendingSignIn};
pub use sessions::{
    EndedSessions, NewSession, Session, SessionLimits, end_session, end_sessions_by_name, find_session,
    sign_out_everywhere,
};
pub use verified_sign_in::{OneTimeSignIn, SignIn, VerifiedPerson, sign_in_person};

use crate::audit::Actor;
use crate::input::Name;
use common::model::TenantId;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// What somebody who is signed in may do. Each role may do what the ones before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sees the pages of one tenant.
    Viewer,
    /// Changes the settings of one tenant.
    Admin,
    /// Sees and changes the settings of all tenants, and the queues.
    Operator,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Admin, Self::Operator];

    /// The name in commands and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Admin => "admin",
            Self::Operator => "operator",
        }
    }

    /// The role with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }
}

/// How somebody signed in. The names are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInMethod {
    /// A link of `connectctl console login`.
    Link,
    /// A link for a partner of a tenant.
    PartnerLink,
    /// An OpenID Connect provider.
    OpenIdConnect,
    /// Headers of a proxy.
    Proxy,
}

impl SignInMethod {
    /// All ways to sign in.
    pub const ALL: [Self; 4] = [Self::Link, Self::PartnerLink, Self::OpenIdConnect, Self::Proxy];

    /// The name in the database and in audit records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::PartnerLink => "partner-link",
            Self::OpenIdConnect => "openid-connect",
            Self::Proxy => "proxy",
        }
    }

    /// The way to sign in with this name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == name)
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

impl SignedInIdentity {
    /// The person as audit records name them. A partner is marked as one: who invites them chooses their name.
    pub fn actor(&self, method: SignInMethod) -> Actor {
        let (person, role) = (self.person.as_str(), self.role.as_str());
        let name = if method == SignInMethod::PartnerLink {
            format!("{person} ({role}, partner)")
        } else if person == role {
            // The name of a person who gave none is that of the role.
            person.to_owned()
        } else {
            format!("{person} ({role})")
        };
        Actor::signed_in(&name)
    }
}

/// What is stored of a token: it cannot be used to sign in.
pub(crate) struct TokenHash([u8; 32]);

impl TokenHash {
    fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
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

    #[test]
    fn each_way_to_sign_in_has_a_name() {
        for method in SignInMethod::ALL {
            assert_eq!(SignInMethod::parse(method.as_str()), Some(method));
        }
        assert_eq!(SignInMethod::parse(""), None);
    }
}
