//! The members of a tenant: advisors, who own its leads.

use crate::audit::{Actor, AuditAction, record};
use crate::input::{MemberEmail, Name};
use crate::transaction::transact;
use crate::{AdminError, store, tenants};
use serde::Serialize;
use tokio_postgres::Client;

/// A member of a tenant.
#[derive(Clone, Debug, Serialize)]
pub struct Member {
    /// Lower case.
    pub email: String,
    /// Full name, which the API shows for an owner.
    pub name: String,
    /// Whether new leads are routed to them.
    pub active: bool,
}

/// Adds a member, or restores a removed one. Changes the name of an existing one.
pub async fn add(
    client: &mut Client,
    actor: &Actor,
    tenant: &str,
    email: &MemberEmail,
    name: &Name,
) -> Result<Member, AdminError> {
    transact(client, async |tx| {
        let tenant = tenants::find(tx, tenant).await?;
        let added = store::members::add(tx, tenant, email, name).await?;
        record(tx, actor, AuditAction::AddMember, email.as_str(), Some(tenant)).await?;
        Ok(added)
    })
    .await
}

/// Removes a member: no new lead is routed to them. They keep the leads that they own.
pub async fn remove(
    client: &mut Client,
    actor: &Actor,
    tenant: &str,
    email: &MemberEmail,
) -> Result<Member, AdminError> {
    let not_found =
        || AdminError::MemberNotFound { email: email.as_str().to_owned(), tenant: tenant.to_owned() };
    transact(client, async |tx| {
        let id = tenants::find(tx, tenant).await?;
        let removed = store::members::remove(tx, id, email).await?.ok_or_else(not_found)?;
        record(tx, actor, AuditAction::RemoveMember, email.as_str(), Some(id)).await?;
        Ok(removed)
    })
    .await
}

/// The members of a tenant, removed ones included, in the order in which they were added.
pub async fn list(client: &Client, tenant: &str) -> Result<Vec<Member>, AdminError> {
    let tenant = tenants::find(client, tenant).await?;
    store::members::list(client, tenant).await
}
