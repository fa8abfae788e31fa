//! Links that sign in once: for operators and members of an agency, and for partners.

use super::{Role, SignInMethod, SignedInIdentity, TokenHash, find_session, sessions};
use crate::audit::{Actor, AuditAction, record};
use crate::input::Name;
use crate::{AdminError, Result, secrets, store, tenants, transact};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::TimeDelta;
use common::clock;
use common::sealed::Secret;
use common::settings::ConsoleUrl;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use sha2::Sha256;
use tokio_postgres::{Client, Transaction};

/// How long a link can be used.
pub const LINK_LIFETIME: TimeDelta = TimeDelta::minutes(5);

/// A link to be created.
#[derive(Clone, Debug)]
pub struct NewLink {
    /// What the session may do.
    pub role: Role,
    /// Slug of the tenant that the session is limited to; `None` for an operator.
    pub tenant: Option<String>,
    /// Who signs in; the name of the role if it is `None`.
    pub person: Option<Name>,
}

/// A link that was created.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoginLink {
    /// Opened in a browser, it leads to a page with a button that signs in. It contains the only copy of the token.
    pub url: String,
    /// When it stops working, RFC 3339, UTC.
    pub expires_at: String,
}

/// Creates a link below `console`. Whoever opens it first, within [`LINK_LIFETIME`], is signed in.
pub async fn create_link(client: &mut Client, actor: &Actor, console: &ConsoleUrl, new: &NewLink) -> Result<LoginLink> {
    let tenant = match (new.role, new.tenant.as_deref()) {
        (Role::Operator, None) => None,
        (Role::Operator, Some(_)) => {
            return Err(AdminError::InvalidInput("an operator is not limited to a tenant".to_owned()));
        }
        (Role::Viewer | Role::Admin, Some(slug)) => Some(tenants::find(&*client, slug).await?),
        (Role::Viewer | Role::Admin, None) => {
            return Err(AdminError::InvalidInput(format!("role {} needs a tenant", new.role.as_str())));
        }
    };
    let person = match &new.person {
        Some(person) => person.clone(),
        None => Name::parse(new.role.as_str())?,
    };
    let identity = SignedInIdentity { role: new.role, tenant, person };
    let lifetime = (SignInMethod::Link, LINK_LIFETIME);
    create(client, actor, console, &identity, lifetime, AuditAction::CreateLoginLink).await
}

/// Creates a link of a kind and lifetime, and records it as `action`.
pub(super) async fn create(
    client: &mut Client, actor: &Actor, console: &ConsoleUrl, identity: &SignedInIdentity,
    (method, lifetime): (SignInMethod, TimeDelta), action: AuditAction,
) -> Result<LoginLink> {
    let token = secrets::new_secret("cl_")?;
    let created_at = clock::database_now();
    let expires_at = created_at + lifetime;
    let hash = TokenHash::of(token.reveal());
    let target = format!("{} as {}", identity.person.as_str(), identity.role.as_str());
    transact(client, async |tx| {
        store::console::remove_expired_links(tx, created_at).await?;
        let create = store::console::CREATE_LINK;
        store::console::add(tx, create, &hash, (identity, method), created_at, expires_at).await?;
        record(tx, actor, action, &target, identity.tenant).await
    })
    .await?;
    let url = format!("{console}/sign-in/{}", token.reveal());
    Ok(LoginLink { url, expires_at: clock::to_text(expires_at) })
}

/// Whether the link with this token can be used. Does not use it up: mail programs and chats fetch links to preview them.
pub async fn is_link_valid(client: &Client, token: &str) -> Result<bool> {
    store::console::is_link_valid(client, &TokenHash::of(token), clock::database_now()).await
}

/// The token of the session that a form with the token `link` begins. It follows from the link and the form's id, which only the
/// browser that was shown the form knows: sent twice, the form leads to the same session (D41). Without an id it is a new one.
pub fn link_session(link: &str, form_id: &str) -> Result<Secret> {
    if form_id.is_empty() {
        return sessions::new_token();
    }
    let mac = Hmac::<Sha256>::new_from_slice(link.as_bytes()).expect("HMAC takes keys of any length");
    let mac = mac.chain_update("connect/console-session/v1:").chain_update(form_id).finalize();
    Ok(Secret::new(format!("cn_{}", URL_SAFE_NO_PAD.encode(mac.into_bytes()))))
}

/// Uses up the link with the token `link` and begins the session with the token `session`. Returns `false` if the link is unknown,
/// expired or used, and this session does not exist. The session with the token `replaced`, which the browser had before, ends.
pub async fn use_link(client: &mut Client, link: &str, session: &Secret, replaced: Option<&str>) -> Result<bool> {
    let now = clock::database_now();
    let (link, hash) = (TokenHash::of(link), TokenHash::of(session.reveal()));
    let begin = async |tx: &Transaction<'_>| {
        let Some((identity, method)) = store::console::use_up_link(tx, &link, now).await? else {
            return Ok(false);
        };
        sessions::insert_session(tx, &hash, (&identity, method), replaced, now).await?;
        Ok(true)
    };
    Ok(transact(client, begin).await? || find_session(client, session.reveal(), false).await?.is_some())
}

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
    client: &mut Client, actor: &Actor, console: &ConsoleUrl, new: &NewPartnerLink,
) -> Result<LoginLink> {
    if new.role == Role::Operator {
        return Err(AdminError::InvalidInput("role must be viewer or admin".to_owned()));
    }
    let tenant = Some(tenants::find(&*client, &new.tenant).await?);
    let identity = SignedInIdentity { role: new.role, tenant, person: new.person.clone() };
    let kind = (SignInMethod::PartnerLink, PARTNER_LINK_LIFETIME);
    create(client, actor, console, &identity, kind, AuditAction::CreatePartnerLink).await
}

/// Ends all links and sessions of a tenant's partners. People who signed in in another way stay signed in.
pub async fn revoke_partners(client: &mut Client, actor: &Actor, tenant: &str) -> Result<Revoked> {
    let id = tenants::find(&*client, tenant).await?;
    transact(client, async |tx| {
        let links = store::console::remove_partner_links(tx, id).await?;
        let sessions = store::console::end_of_partners(tx, id).await?;
        record(tx, actor, AuditAction::RevokePartners, tenant, Some(id)).await?;
        Ok(Revoked { links, sessions })
    })
    .await
}
