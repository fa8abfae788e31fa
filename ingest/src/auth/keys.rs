//! Finds the key of a prefix: in the cache, or in the database.

use super::key::Key;
use super::key_cache::{Cached, KeyCache, Ticket};
use super::look_ups::{LookUpTurns, Turn};
use crate::bound::Bound;
use crate::error::Refusal;
use crate::outage::Outage;
use crate::store::{self, api_keys};
use common::caller::Caller;
use common::db::Database;
use common::limited;
use common::log_limit::LogLimit;
use common::metrics::{self as names, SEALED_UNOPENED};
use common::model::{KeyPrefix, Scope, Scopes, TenantId};
use common::sealed::{CannotOpen, MasterKey, key_binding};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};

/// Which keys are logged whose secret can't be opened, and which whose scopes aren't known.
static KEYS: LogLimit<2> = LogLimit::new();

/// All keys there are.
#[derive(Debug)]
pub struct Keys {
    db: Database,
    master: MasterKey,
    cache: Arc<KeyCache>,
    turns: LookUpTurns,
    outage: Outage,
}

/// What [`Keys::find`] found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The key.
    pub key: Option<Arc<Key>>,
    /// Whether the database was asked for it, not the cache alone.
    was_asked: bool,
}

impl Keys {
    /// Keys in `db`, whose secrets `master` opens. `cache` is to be kept current by
    /// [`watch_keys`](super::watch_keys).
    pub fn new(db: Database, master: MasterKey, cache: Arc<KeyCache>) -> Self {
        names::show(SEALED_UNOPENED, &[("of", "key")]);
        Self { db, master, cache, turns: LookUpTurns::default(), outage: Outage::new("key look-up") }
    }

    /// The key of `prefix`, revoked and expired ones included; no key when there is none.
    ///
    /// 503 `replay_store_unavailable` when it isn't in the cache and the database doesn't answer until `deadline`. The
    /// same when its secret can't be opened: that is an operator's fault (another master key), the caller's key may be
    /// good, and so a retry must be invited where a 401 would send the caller to replace it.
    ///
    /// 503 `overloaded` when it isn't in the cache and look-ups of the same peer or its network take until `deadline`.
    pub async fn find(&self, prefix: &KeyPrefix, peer: IpAddr, deadline: Instant) -> Result<Found, Refusal> {
        if let Ok(found) = self.cached(prefix) {
            return Ok(found);
        }
        let _turn = self.turn(peer, deadline).await?;
        // It may have been looked up meanwhile.
        let ticket = match self.cached(prefix) {
            Ok(found) => return Ok(found),
            Err(ticket) => ticket,
        };
        let row = self.ask(prefix, deadline).await?;
        let key = row.map(|row| self.open(prefix, row)).transpose().map_err(|error| {
            limited!(KEYS[0], error, key = %prefix, %error, "secret decryption failed; requests of this key are answered 503");
            metrics::counter!(SEALED_UNOPENED, "of" => "key").increment(1);
            Refusal::ReplayStoreUnavailable
        })?;
        let key = key.map(Arc::new);
        self.cache.put(ticket, prefix, key.as_ref());
        Ok(Found { key, was_asked: true })
    }

    /// A request with the key that was `found` is refused. Asks the database as often as for a prefix that nobody has,
    /// so that the time of a refusal doesn't tell which prefixes there are (D1).
    pub async fn refused(
        &self,
        prefix: &KeyPrefix,
        found: &Found,
        peer: IpAddr,
        deadline: Instant,
    ) -> Result<(), Refusal> {
        if found.key.is_none() || self.cache.ask_again(prefix, Instant::now()).is_none() {
            return Ok(());
        }
        let _turn = if found.was_asked { None } else { Some(self.turn(peer, deadline).await?) };
        // It may have been asked for meanwhile.
        let Some(ticket) = self.cache.ask_again(prefix, Instant::now()) else { return Ok(()) };
        if !found.was_asked {
            self.ask(prefix, deadline).await?;
        }
        self.cache.asked_again(ticket, prefix);
        Ok(())
    }

    /// What the cache says of `prefix`, or the ticket for a look-up.
    fn cached(&self, prefix: &KeyPrefix) -> Result<Found, Ticket> {
        match self.cache.get(prefix, Instant::now()) {
            Cached::Key(key) => Ok(Found { key: Some(key), was_asked: false }),
            Cached::NoKey => Ok(Found { key: None, was_asked: false }),
            Cached::Ask(ticket) => Err(ticket),
        }
    }

    async fn turn(&self, peer: IpAddr, deadline: Instant) -> Result<Turn<'_>, Refusal> {
        timeout_at(deadline, self.turns.take(peer)).await.map_err(|_| Bound::KeyLookUps.refuse())
    }

    async fn ask(&self, prefix: &KeyPrefix, deadline: Instant) -> Result<Option<api_keys::Row>, Refusal> {
        let row = store::ask(&self.db, deadline, async |client| api_keys::find(client, prefix).await).await;
        let row = row.map_err(|error| {
            self.outage.failed(&error);
            Refusal::ReplayStoreUnavailable
        })?;
        self.outage.worked();
        Ok(row)
    }

    fn open(&self, prefix: &KeyPrefix, row: api_keys::Row) -> Result<Key, CannotOpen> {
        let binding = key_binding(TenantId(row.tenant_id), prefix.as_str());
        let secret = self.master.open(&row.secret_sealed, &binding)?;
        let caller = Caller {
            tenant_id: TenantId(row.tenant_id),
            tenant: row.tenant,
            key: prefix.clone(),
            scopes: known_scopes(prefix, &row.scopes),
            origin: row.origin,
        };
        // The table admits only numbers above zero.
        let reads_per_second = u32::try_from(row.reads_per_second).unwrap_or(1);
        Ok(Key { caller, secret, expires_at: row.expires_at, is_revoked: row.is_revoked, reads_per_second })
    }
}

/// The scopes that this version knows. A later one may have granted others, which are no reason to refuse the rest.
fn known_scopes(prefix: &KeyPrefix, names: &[String]) -> Scopes {
    let (known, unknown): (Vec<&str>, Vec<&str>) =
        names.iter().map(String::as_str).partition(|name| Scope::parse(name).is_some());
    if !unknown.is_empty() {
        limited!(KEYS[1], warn, key = %prefix, ?unknown, "key has scopes that this version doesn't know");
    }
    Scopes::parse(&known).unwrap_or_default()
}
