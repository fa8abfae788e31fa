//! Sessions of people who are signed in.

use super::{PendingSignIn, Session, SignInMethod, SignedInIdentity, TokenHash};
use crate::audit::{Actor, AuditAction, record};
use crate::input::Name;
use crate::{Result, secrets, store, transact};
use chrono::{DateTime, TimeDelta, Utc};
use common::clock;
use common::model::{Email, folded};
use common::sealed::Secret;
use serde::Serialize;
use tokio_postgres::{Client, Transaction};

/// How precisely the last use of a session is stored, so that not every page writes to the database. At most a quarter of
/// [`IDLE_MAX`]: otherwise a session that is in use could end.
const USE_PRECISION: TimeDelta = TimeDelta::minutes(1);

/// A session ends after this time without use.
const IDLE_MAX: TimeDelta = TimeDelta::minutes(30);
/// A session ends after this time in any case.
pub(super) const SESSION_MAX: TimeDelta = TimeDelta::hours(12);

pub(super) fn new_token() -> Result<Secret> {
    secrets::new_secret("cn_")
}

/// Begins a session of somebody whose identity was verified, and returns its token. If the sign-in `pending` has begun one before,
/// it is that one (D41); `None` if that has ended.
pub(super) async fn begin_verified_session(
    client: &mut Client, identity: &SignedInIdentity, method: SignInMethod, pending: Option<&PendingSignIn>,
    replaced: Option<&str>,
) -> Result<Option<Secret>> {
    let (now, token) = (clock::database_now(), pending.map_or_else(new_token, |pending| Ok(pending.session.clone()))?);
    let hash = TokenHash::of(token.reveal());
    let begin = async |tx: &Transaction<'_>| {
        store::console::remove_expired_sign_ins(tx, now).await?;
        if let Some(PendingSignIn { state, expires_at, .. }) = pending
            && !store::console::spend_sign_in(tx, &TokenHash::of(state), *expires_at).await?
        {
            return Ok(false);
        }
        insert_session(tx, &hash, (identity, method), replaced, now).await?;
        Ok(true)
    };
    let is_begun = transact(client, begin).await? || find_session(client, token.reveal(), false).await?.is_some();
    Ok(is_begun.then_some(token))
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
