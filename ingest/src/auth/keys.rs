//! Looks up the API key of a prefix, in the cache or in the database.

use super::key::{ApiKey, OldSecret};
use super::key_cache::{CacheLookup, KeyCache, LookupTicket};
use super::key_uses::NotedMinutes;
use super::lookup_limiter::{KeyLookupLimiter, LookupPermit};
use crate::overload::OverloadReason;
use crate::refusal::Refusal;
use crate::store::{self, api_keys};
use common::caller::Caller;
use common::clock;
use common::db::Database;
use common::limited;
use common::log_limit::LogLimit;
use common::metrics::{self as names, SECRET_DECRYPTION_FAILURES};
use common::model::{KeyPrefix, Scope, Scopes, TenantId};
use common::outage::Outage;
use common::sealed::{DecryptionFailed, MasterKeys, api_key_binding};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};

/// Limits the log lines about keys whose secret cannot be decrypted, and about unknown scopes.
static KEYS: LogLimit<2> = LogLimit::new();

/// The API keys in the database, behind a cache.
#[derive(Debug)]
pub(crate) struct KeyStore {
    db: Database,
    masters: MasterKeys,
    cache: Arc<KeyCache>,
    limiter: KeyLookupLimiter,
    outage: Outage,
}

/// The result of [`KeyStore::find`].
#[derive(Clone, Debug)]
pub(crate) struct KeyLookup {
    /// `None` when no key has the prefix.
    pub(crate) key: Option<Arc<ApiKey>>,
    /// False when the cache had it.
    asked_database: bool,
}

impl KeyStore {
    /// Reads keys from `db` and decrypts their secrets with `masters`. [`watch_keys`](super::watch_keys) must keep `cache`
    /// current.
    pub(crate) fn new(db: Database, masters: MasterKeys, cache: Arc<KeyCache>) -> Self {
        names::register_counter(SECRET_DECRYPTION_FAILURES, &[("kind", "key")]);
        Self {
            db,
            masters,
            cache,
            limiter: KeyLookupLimiter::default(),
            outage: store::outage_of_requests("key look-up"),
        }
    }

    /// The key of `prefix`, revoked and expired ones included; no key when there is none.
    ///
    /// 503 `replay_store_unavailable` when it is not cached and the database does not respond before `deadline`. The same
    /// when its secret cannot be decrypted: that is the operator's mistake (another master key), so the caller should retry
    /// and not replace a key that may be valid, as after a 401.
    ///
    /// 503 `overloaded` when it is not cached and look-ups of the same peer or its network take until `deadline`.
    pub(crate) async fn find(
        &self,
        prefix: &KeyPrefix,
        peer: IpAddr,
        deadline: Instant,
    ) -> Result<KeyLookup, Refusal> {
        if let Ok(found) = self.cached(prefix) {
            return Ok(found);
        }
        let _permit = self.lookup_permit(peer, deadline).await?;
        // It may have been looked up meanwhile.
        let ticket = match self.cached(prefix) {
            Ok(found) => return Ok(found),
            Err(ticket) => ticket,
        };
        let row = self.query_database(prefix, deadline).await?;
        let key = row.map(|row| self.open(prefix, row)).transpose().map_err(|error| {
            limited!(KEYS[0], error, key = %prefix, %error, "secret decryption failed; responding 503 to requests of this key");
            metrics::counter!(SECRET_DECRYPTION_FAILURES, "kind" => "key").increment(1);
            Refusal::ReplayStoreUnavailable
        })?;
        let key = key.map(Arc::new);
        self.cache.put(ticket, prefix, key.as_ref());
        Ok(KeyLookup { key, asked_database: true })
    }

    /// To be called before a request with a key is refused. Asks the database as often as for an unknown prefix, so that the
    /// time of a refusal does not tell which prefixes exist (D1).
    pub(crate) async fn equalize_refusal_cost(
        &self,
        prefix: &KeyPrefix,
        found: &KeyLookup,
        peer: IpAddr,
        deadline: Instant,
    ) -> Result<(), Refusal> {
        if found.key.is_none() || !self.cache.needs_recheck(prefix, Instant::now()) {
            return Ok(());
        }
        let _permit =
            if found.asked_database { None } else { Some(self.lookup_permit(peer, deadline).await?) };
        // It may have been asked for meanwhile.
        let Some(ticket) = self.cache.begin_recheck(prefix, Instant::now()) else { return Ok(()) };
        if !found.asked_database {
            self.query_database(prefix, deadline).await?;
        }
        self.cache.finish_recheck(ticket, prefix);
        Ok(())
    }

    /// What the cache says of `prefix`, or the ticket for a look-up.
    fn cached(&self, prefix: &KeyPrefix) -> Result<KeyLookup, LookupTicket> {
        match self.cache.get(prefix, Instant::now()) {
            CacheLookup::Found(key) => Ok(KeyLookup { key: Some(key), asked_database: false }),
            CacheLookup::NoSuchKey => Ok(KeyLookup { key: None, asked_database: false }),
            CacheLookup::Miss(ticket) => Err(ticket),
        }
    }

    async fn lookup_permit(&self, peer: IpAddr, deadline: Instant) -> Result<LookupPermit<'_>, Refusal> {
        timeout_at(deadline, self.limiter.take(peer)).await.map_err(|_| OverloadReason::KeyLookUps.refuse())
    }

    async fn query_database(
        &self,
        prefix: &KeyPrefix,
        deadline: Instant,
    ) -> Result<Option<api_keys::Row>, Refusal> {
        let row =
            store::run_until(&self.db, deadline, async |client| api_keys::find(client, prefix).await).await;
        let row = row.map_err(|error| {
            self.outage.report_failure(&error);
            Refusal::ReplayStoreUnavailable
        })?;
        self.outage.report_success();
        Ok(row)
    }

    fn open(&self, prefix: &KeyPrefix, row: api_keys::Row) -> Result<ApiKey, DecryptionFailed> {
        let binding = api_key_binding(TenantId(row.tenant_id), prefix.as_str());
        let secret = self.masters.open(&row.secret_sealed, &binding)?;
        // One whose overlap has ended is not needed, so it need not be readable.
        let old_secret = row.old_secret.filter(|(_, until)| clock::now() < *until);
        let open_old = |(sealed, until): (Vec<u8>, _)| {
            Ok(OldSecret { secret: self.masters.open(&sealed, &binding)?, until })
        };
        let caller = Caller {
            tenant_id: TenantId(row.tenant_id),
            tenant: row.tenant,
            key: prefix.clone(),
            scopes: known_scopes(prefix, &row.scopes),
            origin: row.origin,
        };
        // The table admits only numbers above zero.
        let reads_per_second = u32::try_from(row.reads_per_second).unwrap_or(1);
        Ok(ApiKey {
            caller,
            secret,
            secret_number: row.secret_number,
            old_secret: old_secret.map(open_old).transpose()?,
            noted_minutes: NotedMinutes::default(),
            expires_at: row.expires_at,
            is_revoked: row.is_revoked,
            reads_per_second,
        })
    }
}

/// The scopes that this version knows. A later version may have granted others, which are ignored.
fn known_scopes(prefix: &KeyPrefix, names: &[String]) -> Scopes {
    let (known, unknown): (Vec<&str>, Vec<&str>) =
        names.iter().map(String::as_str).partition(|name| Scope::parse(name).is_some());
    if !unknown.is_empty() {
        limited!(KEYS[1], warn, key = %prefix, ?unknown, "API key has scopes that this version does not know; ignoring them");
    }
    Scopes::parse(&known).unwrap_or_default()
}
