//! Links that sign in to the settings area.

use super::{execute, exists, one};
use crate::AdminError;
use crate::console::{Role, SignInMethod, SignedInIdentity, TokenHash};
use crate::input::Name;
use chrono::{DateTime, Utc};
use common::model::TenantId;
use tokio_postgres::{Client, Row, Transaction};
use uuid::Uuid;

common::statements! {
    const CREATE = "-- console_login_links.create
    INSERT INTO console_login_links (token_hash, role, tenant_id, person, created_at, expires_at, method)
    VALUES ($1, $2, $3, $4, $5, $6, $7)";

    const IS_VALID = "-- console_login_links.is_valid
    SELECT FROM console_login_links WHERE token_hash = $1 AND $2 < expires_at";

    /// Of two requests with the same link, the second one finds no row.
    const USE_UP = "-- console_login_links.use_up
    DELETE FROM console_login_links WHERE token_hash = $1 AND $2 < expires_at
    RETURNING role, tenant_id, person, method";

    const REMOVE_EXPIRED = "-- console_login_links.remove_expired
    DELETE FROM console_login_links WHERE expires_at <= $1";

    const REMOVE_OF_PARTNERS = "-- console_login_links.remove_of_partners
    DELETE FROM console_login_links WHERE tenant_id = $1 AND method = 'partner-link'";
}

pub(crate) async fn create(
    tx: &Transaction<'_>,
    hash: &TokenHash,
    (identity, method): (&SignedInIdentity, SignInMethod),
    created_at: DateTime<Utc>,
    expires_at: DateTime<Utc>,
) -> Result<(), AdminError> {
    let (role, tenant, person) =
        (identity.role.as_str(), stored_tenant(identity.tenant), identity.person.as_str());
    let (hash, method) = (hash.as_bytes(), method.as_str());
    execute(tx, CREATE, &[&hash, &role, &tenant, &person, &created_at, &expires_at, &method]).await?;
    Ok(())
}

pub(crate) async fn is_valid(
    client: &Client,
    hash: &TokenHash,
    now: DateTime<Utc>,
) -> Result<bool, AdminError> {
    exists(client, IS_VALID, &[&hash.as_bytes(), &now]).await
}

/// Deletes a link that has not expired, and returns who signs in with it, and what kind of link it is.
pub(crate) async fn use_up(
    tx: &Transaction<'_>,
    hash: &TokenHash,
    now: DateTime<Utc>,
) -> Result<Option<(SignedInIdentity, SignInMethod)>, AdminError> {
    let found = |row: &Row| Ok((identity(row)?, method(row)?));
    one(tx, USE_UP, &[&hash.as_bytes(), &now], found).await
}

pub(crate) async fn remove_expired(tx: &Transaction<'_>, now: DateTime<Utc>) -> Result<(), AdminError> {
    execute(tx, REMOVE_EXPIRED, &[&now]).await?;
    Ok(())
}

/// Deletes the links for partners of a tenant. Returns how many.
pub(crate) async fn remove_of_partners(tx: &Transaction<'_>, tenant: TenantId) -> Result<u64, AdminError> {
    execute(tx, REMOVE_OF_PARTNERS, &[&tenant.0]).await
}

/// The way to sign in, in a row of links or sessions.
pub(super) fn method(row: &Row) -> Result<SignInMethod, AdminError> {
    let method: &str = row.try_get("method")?;
    SignInMethod::parse(method)
        .ok_or_else(|| AdminError::Unreadable(format!("unknown way to sign in {method:?}")))
}

/// The tenant in a row of links or sessions: the nil UUID for operators, so that the column can be a part of the key.
pub(super) fn stored_tenant(tenant: Option<TenantId>) -> Uuid {
    tenant.map_or_else(Uuid::nil, |tenant| tenant.0)
}

/// The identity in a row of links or sessions.
pub(super) fn identity(row: &Row) -> Result<SignedInIdentity, AdminError> {
    let role: &str = row.try_get("role")?;
    let unknown = || AdminError::Unreadable(format!("unknown role {role:?}"));
    Ok(SignedInIdentity {
        role: Role::parse(role).ok_or_else(unknown)?,
        tenant: Some(row.try_get("tenant_id")?).filter(|id: &Uuid| !id.is_nil()).map(TenantId),
        person: Name::parse(row.try_get("person")?)?,
    })
}
