//! Finds the key of a prefix: in the cache, or in the database.

use super::key::Key;
use super::key_cache::{Cached, KeyCache};
use crate::error::Refusal;
use crate::outage::Outage;
use crate::store::{self, api_keys};
use common::caller::Caller;
use common::db::Database;
use common::metrics::{self as names, SEALED_UNOPENED};
use common::model::{KeyPrefix, Scope, Scopes, TenantId};
use common::sealed::{CannotOpen, MasterKey, key_binding};
use std::sync::Arc;
use tokio::time::Instant;

/// All keys there are.
#[derive(Debug)]
pub struct Keys {
    db: Database,
    master: MasterKey,
    cache: Arc<KeyCache>,
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
        Self { db, master, cache, outage: Outage::new("key look-up") }
    }

    /// The key of `prefix`, revoked and expired ones included; no key when there is none.
    ///
    /// 503 `replay_store_unavailable` when it isn't in the cache and the database doesn't answer until `deadline`. The
    /// same when its secret can't be opened: that is an operator's fault (another master key), the caller's key may be
    /// good, and so a retry must be invited where a 401 would send the caller to replace it.
    pub async fn find(&self, prefix: &KeyPrefix, deadline: Instant) -> Result<Found, Refusal> {
        let ticket = match self.cache.get(prefix, Instant::now()) {
            Cached::Key(key) => return Ok(Found { key: Some(key), was_asked: false }),
            Cached::NoKey => return Ok(Found { key: None, was_asked: false }),
            Cached::Ask(ticket) => ticket,
        };
        let row = self.ask(prefix, deadline).await?;
        let key = row.map(|row| self.open(prefix, row)).transpose().map_err(|error| {
            tracing::error!(key = %prefix, %error, "key refused");
            metrics::counter!(SEALED_UNOPENED, "of" => "key").increment(1);
            Refusal::ReplayStoreUnavailable
        })?;
        let key = key.map(Arc::new);
        self.cache.put(ticket, prefix, key.as_ref());
        Ok(Found { key, was_asked: true })
    }

    /// A request with the key that was `found` is refused. Asks the database as often as for a prefix that nobody has,
    /// so that the time of a refusal doesn't tell which prefixes there are (D1).
    pub async fn refused(&self, prefix: &KeyPrefix, found: &Found, deadline: Instant) -> Result<(), Refusal> {
        if found.key.is_none() {
            return Ok(());
        }
        let Some(ticket) = self.cache.ask_again(prefix, Instant::now()) else { return Ok(()) };
        if !found.was_asked {
            self.ask(prefix, deadline).await?;
        }
        self.cache.asked_again(ticket, prefix);
        Ok(())
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
        tracing::warn!(key = %prefix, ?unknown, "key has scopes that this version doesn't know");
    }
    Scopes::parse(&known).unwrap_or_default()
}
