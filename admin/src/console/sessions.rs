//! Sessions of people who are signed in, and their forms: each acts once, however often it is sent (D41).
//!
//! A form has an id with a MAC under the token of the session, so that only this session can send it, and nothing is stored for
//! a form that is never sent. [`record`](crate::audit) spends the id in the transaction of the change.

use super::TokenHash;
use crate::audit::{Actor, AuditAction, record};
use crate::identity::{FormResult, SentForm, Session, SignInMethod, SignedInIdentity};
use crate::input::Name;
use crate::{AdminError, Result, secrets, store, transact};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use common::clock;
use common::model::{Email, folded};
use common::sealed::Secret;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio_postgres::{Client, GenericClient, Transaction};
use uuid::Uuid;

/// How precisely the last use of a session is stored, so that not every page writes to the database. At most a quarter of
/// [`IDLE_MAX`]: otherwise a session that is in use could end.
const USE_PRECISION: TimeDelta = TimeDelta::minutes(1);

/// A session ends after this time without use.
const IDLE_MAX: TimeDelta = TimeDelta::minutes(30);
/// A session ends after this time in any case.
const SESSION_MAX: TimeDelta = TimeDelta::hours(12);

pub(super) fn new_token() -> Result<Secret> {
    secrets::new_secret("cn_")
}

/// Begins a session in the place of the one with the token `replaced`, and records it.
pub(super) async fn insert_session(
    tx: &Transaction<'_>, hash: &TokenHash, (identity, method): (&SignedInIdentity, SignInMethod),
    replaced: Option<&str>, now: DateTime<Utc>,
) -> Result<()> {
    store::console::remove_expired_sessions(tx, now).await?;
    if let Some(replaced) = replaced {
        store::console::end_session(tx, &TokenHash::of(replaced)).await?;
    }
    let begin = store::console::BEGIN;
    store::console::add(tx, begin, hash, (identity, method), now, now + SESSION_MAX).await?;
    let target = format!("{} by {}", identity.role.as_str(), method.as_str());
    record(tx, &identity.actor(method), AuditAction::SignIn, &target, identity.tenant).await
}

/// The session with this token, if it is within its limits. Notes that it was used, unless a page has refreshed itself: a page that
/// nobody looks at must not extend a session beyond its idle limit.
pub async fn find_session(client: &Client, token: &str, is_refresh: bool) -> Result<Option<Session>> {
    let (now, hash) = (clock::database_now(), TokenHash::of(token));
    let found = store::console::find_session(client, &hash, now, now - IDLE_MAX).await?;
    if let Some(session) = &found
        && !is_refresh
        && now - session.last_used_at >= USE_PRECISION.min(IDLE_MAX / 4)
    {
        store::console::note_use(client, &hash, now).await?;
    }
    Ok(found)
}

/// Ends a session, given with its token. Recorded as `console.sign-out`.
pub async fn end_session(client: &mut Client, session: &Session, token: &str) -> Result<()> {
    let hash = TokenHash::of(token);
    transact(client, async |tx| {
        store::console::end_session(tx, &hash).await?;
        record_sign_out(tx, session, "this browser").await
    })
    .await
}

/// How many sessions were ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct EndedSessions {
    /// Sessions, expired ones included.
    pub sessions: u64,
}

/// Ends the sessions of everybody with the name `person`, in any case and in whatever way they signed in, or the sessions of all people if it is
/// `None`. Recorded as `console.end-sessions`.
pub async fn end_sessions_by_name(client: &mut Client, actor: &Actor, person: Option<&Name>) -> Result<EndedSessions> {
    let target = person.map_or("everybody", Name::as_str);
    transact(client, async |tx| {
        let sessions = match person {
            Some(person) => store::console::end_of_people(tx, &same_people(tx, person).await?).await?,
            None => store::console::end_of_everybody(tx).await?,
        };
        record(tx, actor, AuditAction::EndSessions, target, None).await?;
        Ok(EndedSessions { sessions })
    })
    .await
}

/// The names of people with sessions that compare equal to `person`: as emails (D10, D37), or in any case.
async fn same_people(tx: &Transaction<'_>, person: &Name) -> Result<Vec<String>> {
    let key = |name: &str| Email::parse(name).map_or_else(|_| folded(name), |email| email.key().to_owned());
    let named = key(person.as_str());
    Ok(store::console::people(tx).await?.into_iter().filter(|name| key(name) == named).collect())
}

/// Ends all sessions of the person with the same rights, who signed in in the same way: a partner's name may be that of
/// somebody else. Recorded as `console.sign-out`.
pub async fn sign_out_everywhere(client: &mut Client, session: &Session) -> Result<()> {
    transact(client, async |tx| {
        let people = same_people(tx, &session.identity.person).await?;
        store::console::end_of_identity(tx, &people, &session.identity, session.method).await?;
        record_sign_out(tx, session, "everywhere").await
    })
    .await
}

async fn record_sign_out(tx: &Transaction<'_>, session: &Session, target: &str) -> Result<()> {
    let identity = &session.identity;
    record(tx, &identity.actor(session.method), AuditAction::SignOut, target, identity.tenant).await
}

/// The id of a new form in a page of the session with this token.
pub fn new_form_id(token: &str) -> String {
    let id = Uuid::now_v7();
    URL_SAFE_NO_PAD.encode([id.as_bytes().as_slice(), &mac(token, id).finalize().into_bytes()].concat())
}

fn mac(token: &str, id: Uuid) -> Hmac<Sha256> {
    let mac = Hmac::<Sha256>::new_from_slice(token.as_bytes()).expect("HMAC takes keys of any length");
    mac.chain_update("connect/console-form/v1:").chain_update(id.as_bytes())
}

impl SentForm {
    /// A form with this id and content; `None` unless it is from a page of the session with this token.
    pub fn verify(session: &Session, token: &str, id: &str, content: &str) -> Option<Self> {
        let decoded = URL_SAFE_NO_PAD.decode(id).ok()?;
        let (id, sent) = decoded.split_at_checked(16)?;
        let id = Uuid::from_slice(id).ok()?;
        mac(token, id).verify_slice(sent).ok()?;
        Some(Self { tenant: session.tenant(), id, content_hash: Sha256::digest(content).into() })
    }

    /// What the form has led to if it has acted already. Refuses it if it had other content then.
    pub async fn result(&self, client: &Client) -> Result<Option<FormResult>> {
        match store::console::spent_form(client, self).await? {
            Some((true, result)) => Ok(Some(result)),
            Some((false, _)) => Err(AdminError::FormSpent),
            None => Ok(None),
        }
    }

    /// Lets the form be sent again: its operation, of several steps, has failed, and goes on where it was.
    pub(crate) async fn give_back(&self, client: &Client) -> Result<()> {
        store::console::give_back_form(client, self).await
    }

    /// Spends the form in the transaction of its change, whose audit record names `target`. Waits for another request with the
    /// same form that acts at the same time.
    pub(crate) async fn spend(&self, on: &impl GenericClient, result: &FormResult, target: &str) -> Result<()> {
        let result = FormResult { page: result.page.replace("{target}", target), ..result.clone() };
        if store::console::spend_form(on, self, &result, clock::now() + SESSION_MAX).await? {
            Ok(())
        } else {
            Err(AdminError::FormSpent)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::Role;

    #[test]
    fn a_form_belongs_to_its_session() {
        let person = Name::parse("Ada").unwrap();
        let session = Session {
            identity: SignedInIdentity { role: Role::Operator, tenant: None, person },
            tenant_slug: None,
            method: SignInMethod::Link,
            last_used_at: DateTime::UNIX_EPOCH,
        };
        let verify = |token, id: &str| SentForm::verify(&session, token, id, "content");
        let (one, other) = (new_form_id("cn_1"), new_form_id("cn_1"));
        assert!(verify("cn_1", &one).is_some() && verify("cn_1", &one) != verify("cn_1", &other));
        assert_eq!(verify("cn_2", &one), None, "of another session");
        let mixed = format!("{}{}", &one[..20], &other[20..]);
        for forged in ["", "!", "AAAA", &mixed, &one[..one.len() - 4], &format!("{one}AAAA")] {
            assert_eq!(verify("cn_1", forged), None, "{forged}");
        }
    }
}
