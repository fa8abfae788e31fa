//! Access of a tenant's partners: links that an administrator of the tenant hands out, and the sessions that they begin.

use super::links::{self, LoginLink};
use super::{Role, SignInMethod, SignedInIdentity};
use crate::audit::{Actor, AuditAction, record};
use crate::input::Name;
use crate::transaction::transact;
use crate::{AdminError, store, tenants};
use chrono::TimeDelta;
use common::settings::ConsoleUrl;
use serde::Serialize;
use tokio_postgres::Client;

/// How long a partner's link can be used.
pub const PARTNER_LINK_LIFETIME: TimeDelta = TimeDelta::minutes(15);

/// A partner's link to be created.
#[derive(Clone, Debug)]
pub struct NewPartnerLink {
    /// Slug of the only tenant that the session sees.
    pub tenant: String,
    /// What the session may do; not an operator.
    pub role: Role,
    /// Who signs in.
    pub person: Name,
}

/// What revoking a tenant's partners has ended.
#[derive(Debug, Serialize)]
pub struct Revoked {
    /// Links that nobody had used, expired ones included.
    pub links: u64,
    /// Sessions, expired ones included.
    pub sessions: u64,
}

/// Creates a link for a partner. Whoever opens it first, within [`PARTNER_LINK_LIFETIME`], is signed in.
///
/// The token is random and only its hash is stored, with tenant, role and expiry. So nobody can forge a link or change its
/// rights, and, unlike a signed link, it can be revoked.
pub async fn create_partner_link(
    client: &mut Client,
    actor: &Actor,
    console: &ConsoleUrl,
    new: &NewPartnerLink,
) -> Result<LoginLink, AdminError> {
    if new.role == Role::Operator {
        return Err(AdminError::InvalidInput("role must be viewer or admin".to_owned()));
    }
    let tenant = Some(tenants::find(&*client, &new.tenant).await?);
    let identity = SignedInIdentity { role: new.role, tenant, person: new.person.clone() };
    let kind = (SignInMethod::PartnerLink, PARTNER_LINK_LIFETIME);
    links::create(client, actor, console, &identity, kind, AuditAction::CreatePartnerLink).await
}

/// Ends all links and sessions of a tenant's partners. People who signed in in another way stay signed in.
pub async fn revoke_partners(
    client: &mut Client,
    actor: &Actor,
    tenant: &str,
) -> Result<Revoked, AdminError> {
    let id = tenants::find(&*client, tenant).await?;
    transact(client, async |tx| {
        let links = store::console_login_links::remove_of_partners(tx, id).await?;
        let sessions = store::console_sessions::end_of_partners(tx, id).await?;
        record(tx, actor, AuditAction::RevokePartners, tenant, Some(id)).await?;
        Ok(Revoked { links, sessions })
    })
    .await
}
