//! Sign-in of people whom an identity provider or a proxy verifies, with the rights of their groups.

use super::{Role, SignInMethod, SignedInIdentity, TokenHash, find_session, sessions};
use crate::audit::{Actor, AuditAction, record_before};
use crate::input::{Name, TenantSlug};
use crate::{AdminError, Result, secrets, store, tenants, transact};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use common::clock;
use common::sealed::{MasterKey, MasterKeys, Secret};
use common::settings::SettingValue;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tokio_postgres::{Client, Transaction};

/// How long the person may take at the provider.
pub const PENDING_LIFETIME: TimeDelta = TimeDelta::minutes(10);
/// The purpose of the key that is derived from the master key.
const PURPOSE: &str = "connect/console-sign-in/v1";
/// Longest text of a cookie that is looked at.
const COOKIE_MAX: usize = 100;

/// A sign-in that waits for the identity provider, or for the form of a person whom a proxy names.
///
/// Nothing is stored of it: what it needs is derived from a random token in a cookie of the browser (or in its form), its expiry,
/// and the master key. So anybody may begin as many as they like, and only the browser that has begun one can complete it.
pub struct PendingSignIn {
    /// The text of the browser's cookie, or the form's id: expiry and token.
    pub cookie: String,
    /// When it expires.
    pub expires_at: DateTime<Utc>,
    /// Names it at the provider, which sends it back through the browser.
    pub state: String,
    /// The provider puts it into the ID token.
    pub nonce: String,
    /// Proves to the provider that the code is redeemed by who asked for it (PKCE).
    pub verifier: String,
    /// The token of the session that it begins: a repeated callback or form of the browser leads to the same one.
    pub session: Secret,
}

impl PendingSignIn {
    /// A sign-in that begins at `now` and must be completed within [`PENDING_LIFETIME`].
    pub fn begin(keys: &MasterKeys, now: DateTime<Utc>) -> Result<Self> {
        let expires_at = now + PENDING_LIFETIME;
        let cookie = format!("{}.{}", expires_at.timestamp(), secrets::new_secret("")?.reveal());
        Ok(Self::derive(&keys.current, cookie, expires_at))
    }

    /// Restores the sign-in of a browser's `cookie` if `state`, which the provider has sent back, belongs to it; `None` if it has
    /// expired, or if another browser has begun it.
    pub fn resume(keys: &MasterKeys, cookie: &str, state: &str, now: DateTime<Utc>) -> Option<Self> {
        if cookie.len() > COOKIE_MAX {
            return None;
        }
        let (seconds, _) = cookie.split_once('.')?;
        let expires_at = DateTime::from_timestamp(seconds.parse().ok()?, 0).filter(|expiry| now < *expiry)?;
        let state = URL_SAFE_NO_PAD.decode(state).ok()?;
        // After a rotation of the master key, sign-ins that were begun before it can be completed.
        let key = std::iter::once(&keys.current)
            .chain(&keys.previous)
            .find(|key| mac(key, "state", cookie).verify_slice(&state).is_ok())?;
        Some(Self::derive(key, cookie.to_owned(), expires_at))
    }

    fn derive(key: &MasterKey, cookie: String, expires_at: DateTime<Utc>) -> Self {
        let text = |what| URL_SAFE_NO_PAD.encode(mac(key, what, &cookie).finalize().into_bytes());
        let session = Secret::new(format!("cn_{}", text("session")));
        Self { expires_at, state: text("state"), nonce: text("nonce"), verifier: text("verifier"), session, cookie }
    }
}

fn mac(key: &MasterKey, what: &str, cookie: &str) -> Hmac<Sha256> {
    let key = key.derive(PURPOSE);
    let mac = Hmac::<Sha256>::new_from_slice(&key).expect("HMAC takes keys of any length");
    mac.chain_update(what).chain_update(":").chain_update(cookie)
}

/// Maximum number of groups of a person that are considered.
const GROUPS_MAX: usize = 1_000;

/// The rights of groups, in the order in which the setting lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupRoles(Vec<Grant>);

/// The rights of the members of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    group: String,
    /// What they may do.
    pub role: Role,
    /// The tenant that they are limited to; `None` exactly for operators.
    pub tenant: Option<TenantSlug>,
}

impl GroupRoles {
    /// The rights of somebody in `groups`: those of the first listed group that they are in. Names are compared exactly.
    pub fn grant(&self, groups: &[String]) -> Option<&Grant> {
        let groups = groups.get(..GROUPS_MAX).unwrap_or(groups);
        self.0.iter().find(|grant| groups.contains(&grant.group))
    }
}

impl SettingValue for GroupRoles {
    fn parse_setting(text: &str) -> Result<Self, String> {
        let grants: Vec<Grant> = text.split(',').map(grant).collect::<Result<_, _>>()?;
        for (number, grant) in grants.iter().enumerate() {
            if grants.iter().take(number).any(|earlier| earlier.group == grant.group) {
                return Err(format!("names the group {:?} twice", grant.group));
            }
        }
        Ok(Self(grants))
    }
}

fn grant(item: &str) -> Result<Grant, String> {
    const EXPECTED: &str =
        "must be group=role[:tenant], separated by commas, such as ops=operator,acme-staff=viewer:acme";
    let (group, rights) = item.rsplit_once('=').ok_or(EXPECTED)?;
    let (role, tenant) = rights.split_once(':').map_or((rights, None), |(role, tenant)| (role, Some(tenant)));
    let (group, role) = (group.trim_ascii().to_owned(), Role::parse(role.trim()).ok_or(EXPECTED)?);
    if group.is_empty() {
        return Err(EXPECTED.to_owned());
    }
    let tenant = match (role, tenant) {
        (Role::Operator, None) => None,
        (Role::Operator, Some(_)) => return Err("limits an operator to a tenant".to_owned()),
        (Role::Viewer | Role::Admin, None) => {
            return Err(format!("must name the tenant of {group:?}: {group}={}:tenant", role.as_str()));
        }
        (Role::Viewer | Role::Admin, Some(slug)) => {
            Some(TenantSlug::parse(slug.trim()).map_err(|error| error.to_string())?)
        }
    };
    Ok(Grant { group, role, tenant })
}

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

/// What became of an attempt to sign in.
#[derive(Debug)]
pub enum SignIn {
    /// The person is signed in, in the session with this token.
    SignedIn(Secret),
    /// None of the person's groups gives access. This was recorded.
    NoAccess,
    /// The sign-in has begun a session before, which has ended.
    Replayed,
}

/// Begins a session of somebody whose identity was verified, with the role that `roles` gives to their groups. The session with
/// the token `replaced`, which the browser had before, ends. The sign-in `pending` begins at most one session.
pub async fn sign_in_person(
    client: &mut Client, roles: &GroupRoles, person: &VerifiedPerson, pending: Option<&PendingSignIn>,
    replaced: Option<&str>,
) -> Result<SignIn> {
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
    let begun = begin_session(client, &identity, person.method, pending, replaced).await?;
    Ok(begun.map_or(SignIn::Replayed, SignIn::SignedIn))
}

/// Begins a session of somebody whose identity was verified, and returns its token. If the sign-in `pending` has begun one before,
/// it is that one (D41); `None` if that has ended.
async fn begin_session(
    client: &mut Client, identity: &SignedInIdentity, method: SignInMethod, pending: Option<&PendingSignIn>,
    replaced: Option<&str>,
) -> Result<Option<Secret>> {
    let (now, token) =
        (clock::database_now(), pending.map_or_else(sessions::new_token, |pending| Ok(pending.session.clone()))?);
    let hash = TokenHash::of(token.reveal());
    let begin = async |tx: &Transaction<'_>| {
        store::console::remove_expired_sign_ins(tx, now).await?;
        if let Some(PendingSignIn { state, expires_at, .. }) = pending
            && !store::console::spend_sign_in(tx, &TokenHash::of(state), *expires_at).await?
        {
            return Ok(false);
        }
        sessions::insert_session(tx, &hash, (identity, method), replaced, now).await?;
        Ok(true)
    };
    let is_begun = transact(client, begin).await? || find_session(client, token.reveal(), false).await?.is_some();
    Ok(is_begun.then_some(token))
}

/// Records that a person has no access. The record belongs to no tenant, because the person belongs to none.
async fn refuse(client: &mut Client, person: &VerifiedPerson, why: &str) -> Result<SignIn> {
    let actor = Actor::signed_in(person.name.as_str());
    let target = format!("{}: {why}", person.method.as_str());
    record_before(client, &actor, AuditAction::RefuseSignIn, &target, None).await?;
    Ok(SignIn::NoAccess)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(current: u8, previous: Option<u8>) -> MasterKeys {
        let key = |byte| {
            let text = base64::engine::general_purpose::STANDARD.encode([byte; 32]);
            MasterKey::parse(&text).unwrap()
        };
        MasterKeys { current: key(current), previous: previous.map(key) }
    }

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_777_629_600, 0).unwrap()
    }

    #[test]
    fn the_browser_that_began_a_sign_in_can_complete_it() {
        let begun = PendingSignIn::begin(&keys(1, None), now()).unwrap();
        let resumed = PendingSignIn::resume(&keys(1, None), &begun.cookie, &begun.state, now()).unwrap();
        assert_eq!((&resumed.nonce, &resumed.verifier), (&begun.nonce, &begun.verifier));
        assert_eq!(resumed.session, begun.session);
        assert_eq!(resumed.expires_at, now() + PENDING_LIFETIME);
        let texts = [&begun.state, &begun.nonce, &begun.verifier];
        assert!(texts.iter().all(|text| text.len() == 43 && !begun.cookie.contains(*text)));
        assert!(begun.state != begun.nonce && begun.nonce != begun.verifier);
    }

    #[test]
    fn a_foreign_changed_or_expired_sign_in_is_refused() {
        let keys_now = keys(1, None);
        let begun = PendingSignIn::begin(&keys_now, now()).unwrap();
        let other = PendingSignIn::begin(&keys_now, now()).unwrap();
        let resume = |cookie: &str, state: &str, at| PendingSignIn::resume(&keys_now, cookie, state, at).is_some();
        assert!(resume(&begun.cookie, &begun.state, now() + PENDING_LIFETIME - TimeDelta::seconds(1)));
        assert!(!resume(&begun.cookie, &begun.state, now() + PENDING_LIFETIME), "expired");
        assert!(!resume(&begun.cookie, &other.state, now()), "of another browser");
        let longer = begun.cookie.replacen("1777", "1778", 1);
        assert!(!resume(&longer, &begun.state, now()), "a changed expiry");
        for wrong in ["", ".", "1", "x.y", &"1".repeat(COOKIE_MAX + 1)] {
            assert!(!resume(wrong, &begun.state, now()) && !resume(&begun.cookie, wrong, now()), "{wrong}");
        }
    }

    #[test]
    fn a_sign_in_survives_a_rotation_of_the_master_key() {
        let begun = PendingSignIn::begin(&keys(1, None), now()).unwrap();
        let resume = |keys| PendingSignIn::resume(&keys, &begun.cookie, &begun.state, now());
        assert_eq!(resume(keys(2, Some(1))).map(|one| one.verifier), Some(begun.verifier.clone()));
        assert!(resume(keys(2, None)).is_none());
    }

    fn granted(roles: &GroupRoles, groups: &[&str]) -> Option<(Role, Option<String>)> {
        let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        let grant = roles.grant(&groups)?;
        Some((grant.role, grant.tenant.as_ref().map(|tenant| tenant.as_str().to_owned())))
    }

    #[test]
    fn the_first_listed_group_of_a_person_decides() {
        let text = "ops=operator, acme-admins=admin:acme,cn=staff=viewer:acme";
        let roles = GroupRoles::parse_setting(text).unwrap();
        let acme = || Some("acme".to_owned());
        assert_eq!(granted(&roles, &["acme-admins", "ops"]), Some((Role::Operator, None)));
        assert_eq!(granted(&roles, &["cn=staff", "acme-admins"]), Some((Role::Admin, acme())));
        assert_eq!(granted(&roles, &["cn=staff"]), Some((Role::Viewer, acme())));
        let spaced = GroupRoles::parse_setting(" \u{a0}ops =operator").unwrap();
        assert_eq!(granted(&spaced, &["\u{a0}ops"]), Some((Role::Operator, None)));
        assert_eq!(granted(&spaced, &["ops"]), None, "a no-break space is a part of a name");
        for nobody in [&[][..], &["Ops"], &["ops "], &["ops\u{a0}"], &["ops,acme-admins"], &["acme-admins:acme"], &[""]]
        {
            assert_eq!(granted(&roles, nobody), None, "{nobody:?}");
        }
    }

    #[test]
    fn only_the_first_groups_are_considered() {
        let roles = GroupRoles::parse_setting("ops=operator").unwrap();
        let mut groups = vec!["other"; GROUPS_MAX - 1];
        groups.push("ops");
        assert!(granted(&roles, &groups).is_some());
        groups.insert(0, "other");
        assert_eq!(granted(&roles, &groups), None);
    }

    #[test]
    fn a_mapping_that_gives_other_rights_than_meant_is_refused() {
        for wrong in [
            "", "ops", "=operator", "ops=root", "ops=operator,", "ops=operator:acme", "acme-staff=viewer",
            "acme-staff=viewer:Not A Slug", "acme-staff=viewer:", "ops=operator,ops=viewer:acme",
        ] {
            assert!(GroupRoles::parse_setting(wrong).is_err(), "{wrong}");
        }
    }
}
