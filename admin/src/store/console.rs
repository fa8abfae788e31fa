//! Sign-in to the settings area: links, sessions, and sign-ins by OpenID Connect that began a session. And forms that were sent.

use super::{all, execute, exists, one};
use crate::identity::{FormResult, Role, SentForm, Session, SignInMethod, SignedInIdentity, TokenHash};
use crate::input::Name;
use crate::{AdminError, Result};
use chrono::{DateTime, Utc};
use common::db::Sql;
use common::model::TenantId;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, GenericClient, Row, Transaction};
use uuid::Uuid;

common::statements! {
    pub(crate) const CREATE_LINK = "-- console_login_links.create
    INSERT INTO console_login_links (token_hash, role, tenant_id, person, created_at, expires_at, method)
    VALUES ($1, $2, $3, $4, $5, $6, $7)";

    const IS_LINK_VALID = "-- console_login_links.is_valid
    SELECT FROM console_login_links WHERE token_hash = $1 AND $2 < expires_at";

    /// Of two requests with the same link, the second one finds no row.
    const USE_UP_LINK = "-- console_login_links.use_up
    DELETE FROM console_login_links WHERE token_hash = $1 AND $2 < expires_at
    RETURNING role, tenant_id, person, method";

    const REMOVE_EXPIRED_LINKS = "-- console_login_links.remove_expired
    DELETE FROM console_login_links WHERE expires_at <= $1";

    const REMOVE_OF_PARTNERS = "-- console_login_links.remove_of_partners
    DELETE FROM console_login_links WHERE tenant_id = $1 AND method = 'partner-link'";

    pub(crate) const BEGIN = "-- console_sessions.begin
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
    WHERE person = ANY($1) AND role = $2 AND tenant_id = $3 AND method = $4";

    const END_OF_PARTNERS = "-- console_sessions.end_of_partners
    DELETE FROM console_sessions WHERE tenant_id = $1 AND method = 'partner-link'";

    const PEOPLE = "-- console_sessions.people
    SELECT DISTINCT person FROM console_sessions";

    const END_OF_PEOPLE = "-- console_sessions.end_of_people
    DELETE FROM console_sessions WHERE person = ANY($1)";

    const END_OF_EVERYBODY = "-- console_sessions.end_of_everybody
    DELETE FROM console_sessions WHERE expires_at > '-infinity'";

    const REMOVE_EXPIRED_SESSIONS = "-- console_sessions.remove_expired
    DELETE FROM console_sessions WHERE expires_at <= $1";

    /// Of two sign-ins with the same state, the second one adds no row.
    const SPEND_SIGN_IN = "-- console_spent_sign_ins.add
    INSERT INTO console_spent_sign_ins (state_hash, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING";

    /// Of two transactions with the same form, the second one waits for the first, and adds no row if that one has committed.
    const SPEND_FORM = "-- console_spent_forms.add
    INSERT INTO console_spent_forms (tenant_id, form_id, content_hash, page, heading, expires_at)
    VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING";

    const GIVE_BACK_FORM = "-- console_spent_forms.give_back
    DELETE FROM console_spent_forms WHERE tenant_id = $1 AND form_id = $2";

    const SPENT_FORM = "-- console_spent_forms.find
    SELECT content_hash = $3, page, heading FROM console_spent_forms WHERE tenant_id = $1 AND form_id = $2";

    const REMOVE_EXPIRED_FORMS = "-- console_spent_forms.remove_expired
    DELETE FROM console_spent_forms WHERE expires_at <= $1";

    const REMOVE_EXPIRED_SIGN_INS = "-- console_spent_sign_ins.remove_expired
    DELETE FROM console_spent_sign_ins WHERE expires_at <= $1";
}

/// Adds a link ([`CREATE_LINK`]) or begins a session ([`BEGIN`]), which expires at `expires_at`.
pub(crate) async fn add(
    tx: &Transaction<'_>, statement: Sql, hash: &TokenHash, (identity, method): (&SignedInIdentity, SignInMethod),
    created_at: DateTime<Utc>, expires_at: DateTime<Utc>,
) -> Result<()> {
    let (role, tenant, person) = (identity.role.as_str(), stored_tenant(identity.tenant), identity.person.as_str());
    let (hash, method) = (hash.as_bytes(), method.as_str());
    execute(tx, statement, &[&hash, &role, &tenant, &person, &created_at, &expires_at, &method]).await?;
    Ok(())
}

pub(crate) async fn is_link_valid(client: &Client, hash: &TokenHash, now: DateTime<Utc>) -> Result<bool> {
    exists(client, IS_LINK_VALID, &[&hash.as_bytes(), &now]).await
}

/// Deletes a link that has not expired, and returns who signs in with it, and what kind of link it is.
pub(crate) async fn use_up_link(
    tx: &Transaction<'_>, hash: &TokenHash, now: DateTime<Utc>,
) -> Result<Option<(SignedInIdentity, SignInMethod)>> {
    let found = |row: &Row| Ok((identity(row)?, method(row)?));
    one(tx, USE_UP_LINK, &[&hash.as_bytes(), &now], found).await
}

pub(crate) async fn remove_expired_links(tx: &Transaction<'_>, now: DateTime<Utc>) -> Result<()> {
    execute(tx, REMOVE_EXPIRED_LINKS, &[&now]).await?;
    Ok(())
}

/// Deletes the links for partners of a tenant. Returns how many.
pub(crate) async fn remove_partner_links(tx: &Transaction<'_>, tenant: TenantId) -> Result<u64> {
    execute(tx, REMOVE_OF_PARTNERS, &[&tenant.0]).await
}

/// The way to sign in, in a row of links or sessions.
fn method(row: &Row) -> Result<SignInMethod> {
    let method: &str = row.try_get("method")?;
    SignInMethod::parse(method).ok_or_else(|| AdminError::Unreadable(format!("unknown way to sign in {method:?}")))
}

/// The tenant in a row of links or sessions: the nil UUID for operators, so that the column can be a part of the key.
fn stored_tenant(tenant: Option<TenantId>) -> Uuid {
    tenant.map_or_else(Uuid::nil, |tenant| tenant.0)
}

fn identity(row: &Row) -> Result<SignedInIdentity> {
    let role: &str = row.try_get("role")?;
    let unknown = || AdminError::Unreadable(format!("unknown role {role:?}"));
    Ok(SignedInIdentity {
        role: Role::parse(role).ok_or_else(unknown)?,
        tenant: Some(row.try_get("tenant_id")?).filter(|id: &Uuid| !id.is_nil()).map(TenantId),
        person: Name::parse(row.try_get("person")?)?,
    })
}

/// The session that has not expired at `now` and was used after `idle_since`.
pub(crate) async fn find_session(
    client: &Client, hash: &TokenHash, now: DateTime<Utc>, idle_since: DateTime<Utc>,
) -> Result<Option<Session>> {
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

pub(crate) async fn note_use(client: &Client, hash: &TokenHash, now: DateTime<Utc>) -> Result<()> {
    execute(client, NOTE_USE, &[&hash.as_bytes(), &now]).await?;
    Ok(())
}

pub(crate) async fn end_session(on: &impl GenericClient, hash: &TokenHash) -> Result<()> {
    execute(on, END, &[&hash.as_bytes()]).await?;
    Ok(())
}

/// Ends the sessions of people of these names with the same rights, who signed in in the same way.
pub(crate) async fn end_of_identity(
    tx: &Transaction<'_>, people: &[String], identity: &SignedInIdentity, method: SignInMethod,
) -> Result<()> {
    let (tenant, role) = (stored_tenant(identity.tenant), identity.role.as_str());
    execute(tx, END_ALL, &[&people, &role, &tenant, &method.as_str()]).await?;
    Ok(())
}

/// Ends the sessions of a tenant's partners. Returns how many.
pub(crate) async fn end_of_partners(tx: &Transaction<'_>, tenant: TenantId) -> Result<u64> {
    execute(tx, END_OF_PARTNERS, &[&tenant.0]).await
}

/// The names of all people with sessions.
pub(crate) async fn people(tx: &Transaction<'_>) -> Result<Vec<String>> {
    all(tx, PEOPLE, &[], |row| Ok(row.try_get("person")?)).await
}

/// Ends the sessions of people of these names. Returns how many.
pub(crate) async fn end_of_people(tx: &Transaction<'_>, people: &[String]) -> Result<u64> {
    execute(tx, END_OF_PEOPLE, &[&people]).await
}

/// Ends all sessions. Returns how many.
pub(crate) async fn end_of_everybody(tx: &Transaction<'_>) -> Result<u64> {
    execute(tx, END_OF_EVERYBODY, &[]).await
}

/// Removes sessions that have expired, and what remains of their forms.
pub(crate) async fn remove_expired_sessions(tx: &Transaction<'_>, now: DateTime<Utc>) -> Result<()> {
    execute(tx, REMOVE_EXPIRED_SESSIONS, &[&now]).await?;
    execute(tx, REMOVE_EXPIRED_FORMS, &[&now]).await?;
    Ok(())
}

/// Marks a form as spent. Returns `false` if it was spent already.
pub(crate) async fn spend_form(
    on: &impl GenericClient, form: &SentForm, FormResult { page, heading }: &FormResult, expires_at: DateTime<Utc>,
) -> Result<bool> {
    let tenant = stored_tenant(form.tenant);
    let parameters: [&(dyn ToSql + Sync); 6] =
        [&tenant, &form.id, &form.content_hash.as_slice(), page, heading, &expires_at];
    Ok(execute(on, SPEND_FORM, &parameters).await? == 1)
}

/// Forgets that a form was spent.
pub(crate) async fn give_back_form(client: &Client, form: &SentForm) -> Result<()> {
    execute(client, GIVE_BACK_FORM, &[&stored_tenant(form.tenant), &form.id]).await?;
    Ok(())
}

/// What a form that was spent has led to, and whether it had the same content.
pub(crate) async fn spent_form(client: &Client, form: &SentForm) -> Result<Option<(bool, FormResult)>> {
    let found =
        |row: &Row| Ok((row.try_get(0)?, FormResult { page: row.try_get("page")?, heading: row.try_get("heading")? }));
    let parameters: super::Parameters<'_> = &[&stored_tenant(form.tenant), &form.id, &form.content_hash.as_slice()];
    one(client, SPENT_FORM, parameters, found).await
}

/// Marks a sign-in as spent. Returns `false` if it was spent already.
pub(crate) async fn spend_sign_in(tx: &Transaction<'_>, state: &TokenHash, expires_at: DateTime<Utc>) -> Result<bool> {
    Ok(execute(tx, SPEND_SIGN_IN, &[&state.as_bytes(), &expires_at]).await? == 1)
}

pub(crate) async fn remove_expired_sign_ins(tx: &Transaction<'_>, now: DateTime<Utc>) -> Result<()> {
    execute(tx, REMOVE_EXPIRED_SIGN_INS, &[&now]).await?;
    Ok(())
}
