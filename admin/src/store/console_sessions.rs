//! Sessions of the settings area.

use super::console_login_links::{identity, method, stored_tenant};
use super::{execute, one};
use crate::AdminError;
use crate::console::{Session, SignInMethod, SignedInIdentity, TokenHash};
use chrono::{DateTime, Utc};
use common::model::TenantId;
use tokio_postgres::{Client, GenericClient, Row, Transaction};

common::statements! {
    const BEGIN = "-- console_sessions.begin
    INSERT INTO console_sessions (token_hash, role, tenant_id, person, created_at, last_used_at, expires_at, method)
    VALUES ($1, $2, $3, $4, $5, $5, $6, $7)";

    const FIND = "-- console_sessions.find
    SELECT s.role, s.tenant_id, s.person, s.last_used_at, s.method, t.slug
    FROM console_sessions s LEFT JOIN tenants t USING (tenant_id)
    WHERE s.token_hash = $1 AND $2 < s.expires_at AND s.last_used_at > $3";

    const NOTE_USE = "-- console_sessions.note_use
    UPDATE console_sessions SET last_used_at = $2 WHERE token_hash = $1";

    const END = "-- console_sessions.end
    DELETE FROM console_sessions WHERE token_hash = $1";

    const END_ALL = "-- console_sessions.end_all
    DELETE FROM console_sessions
    WHERE person = $1 AND role = $2 AND tenant_id = $3 AND method = $4";

    const END_OF_PARTNERS = "-- console_sessions.end_of_partners
    DELETE FROM console_sessions WHERE tenant_id = $1 AND method = 'partner-link'";

    const END_OF_PERSON = "-- console_sessions.end_of_person
    DELETE FROM console_sessions WHERE person = $1";

    const END_OF_EVERYBODY = "-- console_sessions.end_of_everybody
    DELETE FROM console_sessions WHERE expires_at > '-infinity'";

    const REMOVE_EXPIRED = "-- console_sessions.remove_expired
    DELETE FROM console_sessions WHERE expires_at <= $1";
}

pub(crate) async fn begin(
    tx: &Transaction<'_>,
    hash: &TokenHash,
    (identity, method): (&SignedInIdentity, SignInMethod),
    created_at: DateTime<Utc>,
    expires_at: DateTime<Utc>,
) -> Result<(), AdminError> {
    let (role, tenant, person) =
        (identity.role.as_str(), stored_tenant(identity.tenant), identity.person.as_str());
    let (hash, method) = (hash.as_bytes(), method.as_str());
    execute(tx, BEGIN, &[&hash, &role, &tenant, &person, &created_at, &expires_at, &method]).await?;
    Ok(())
}

/// The session that has not expired at `now` and was used after `idle_since`.
pub(crate) async fn find(
    client: &Client,
    hash: &TokenHash,
    now: DateTime<Utc>,
    idle_since: DateTime<Utc>,
) -> Result<Option<Session>, AdminError> {
    let session = |row: &Row| {
        Ok(Session {
            identity: identity(row)?,
            tenant_slug: row.try_get("slug")?,
            method: method(row)?,
            last_used_at: row.try_get("last_used_at")?,
        })
    };
    one(client, FIND, &[&hash.as_bytes(), &now, &idle_since], session).await
}

pub(crate) async fn note_use(
    client: &Client,
    hash: &TokenHash,
    now: DateTime<Utc>,
) -> Result<(), AdminError> {
    execute(client, NOTE_USE, &[&hash.as_bytes(), &now]).await?;
    Ok(())
}

pub(crate) async fn end(on: &impl GenericClient, hash: &TokenHash) -> Result<(), AdminError> {
    execute(on, END, &[&hash.as_bytes()]).await?;
    Ok(())
}

/// Ends the sessions of a person with the same rights, who signed in in the same way.
pub(crate) async fn end_of_identity(
    tx: &Transaction<'_>,
    identity: &SignedInIdentity,
    method: SignInMethod,
) -> Result<(), AdminError> {
    let (person, role) = (identity.person.as_str(), identity.role.as_str());
    let tenant = stored_tenant(identity.tenant);
    execute(tx, END_ALL, &[&person, &role, &tenant, &method.as_str()]).await?;
    Ok(())
}

/// Ends the sessions of a tenant's partners. Returns how many.
pub(crate) async fn end_of_partners(tx: &Transaction<'_>, tenant: TenantId) -> Result<u64, AdminError> {
    execute(tx, END_OF_PARTNERS, &[&tenant.0]).await
}

/// Ends the sessions of everybody with that name, or all of them. Returns how many.
pub(crate) async fn end_by_name(tx: &Transaction<'_>, person: Option<&str>) -> Result<u64, AdminError> {
    match person {
        Some(person) => execute(tx, END_OF_PERSON, &[&person]).await,
        None => execute(tx, END_OF_EVERYBODY, &[]).await,
    }
}

pub(crate) async fn remove_expired(tx: &Transaction<'_>, now: DateTime<Utc>) -> Result<(), AdminError> {
    execute(tx, REMOVE_EXPIRED, &[&now]).await?;
    Ok(())
}
