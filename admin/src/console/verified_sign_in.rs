//! People whose identity an identity provider or a proxy has verified.

use super::sessions::{self, NewSession};
use super::{GroupRoles, SessionLimits, SignInMethod, SignedInIdentity, TokenHash};
use crate::audit::{Actor, AuditAction, record_before};
use crate::input::Name;
use crate::{AdminError, tenants};
use chrono::{DateTime, Utc};
use tokio_postgres::Client;

/// Somebody whose identity was verified.
#[derive(Clone, Debug)]
pub struct VerifiedPerson {
    /// Their email, or their id at the provider.
    pub name: Name,
    /// The groups that they are in.
    pub groups: Vec<String>,
    /// What has verified it.
    pub method: SignInMethod,
}

/// A sign-in that begins at most one session.
#[derive(Clone, Copy, Debug)]
pub struct OneTimeSignIn<'a> {
    /// The text that names it.
    pub state: &'a str,
    /// When it expires.
    pub expires_at: DateTime<Utc>,
}

/// What became of an attempt to sign in.
#[derive(Debug)]
pub enum SignIn {
    /// The person is signed in.
    SignedIn(NewSession),
    /// None of the person's groups gives access. This was recorded.
    NoAccess,
    /// The sign-in has begun a session before.
    Replayed,
}

/// Begins a session of somebody whose identity was verified, with the role that `roles` gives to their groups. The session with
/// the token `replaced`, which the browser had before, ends.
pub async fn sign_in_person(
    client: &mut Client,
    roles: &GroupRoles,
    person: &VerifiedPerson,
    one_time: Option<OneTimeSignIn<'_>>,
    replaced: Option<&str>,
    limits: SessionLimits,
) -> Result<SignIn, AdminError> {
    let Some(grant) = roles.grant(&person.groups) else {
        return refuse(client, person, "none of their groups gives access").await;
    };
    let tenant = match &grant.tenant {
        None => None,
        Some(slug) => match tenants::find(&*client, slug.as_str()).await {
            Ok(tenant) => Some(tenant),
            Err(AdminError::TenantNotFound(slug)) => {
                return refuse(
                    client,
                    person,
                    &format!("their group is that of tenant {slug:?}, which does not exist"),
                )
                .await;
            }
            Err(error) => return Err(error),
        },
    };
    let identity = SignedInIdentity { role: grant.role, tenant, person: person.name.clone() };
    let one_time = one_time.map(|sign_in| (TokenHash::of(sign_in.state), sign_in.expires_at));
    let begun =
        sessions::begin_verified_session(client, &identity, person.method, one_time, replaced, limits)
            .await?;
    Ok(begun.map_or(SignIn::Replayed, SignIn::SignedIn))
}

/// Records that a person has no access. The record belongs to no tenant, because the person belongs to none.
async fn refuse(client: &mut Client, person: &VerifiedPerson, why: &str) -> Result<SignIn, AdminError> {
    let actor = Actor::signed_in(person.name.as_str());
    let target = format!("{}: {why}", person.method.as_str());
    record_before(client, &actor, AuditAction::RefuseSignIn, &target, None).await?;
    Ok(SignIn::NoAccess)
}
