//! All API keys, in memory, each used only while it is known to match the database (D5).
//!
//! [`watch_keys`](super::watch_keys) loads what has changed: when it is notified, several times a second in case a notification is
//! lost, and before a 401. Keys are used within [`MAX_STALENESS`] of the last time at which the database had
//! no further change. So a revoked key is refused within that time, and while the database is unavailable no key is used.

use super::key::{ApiKey, NotedMinutes, OldSecret};
use crate::bounded_map::BoundedMap;
use crate::refusal::Refusal;
use crate::store::api_keys;
use common::caller::Caller;
use common::log_limit::LogLimit;
use common::metrics::{self as names, SECRET_DECRYPTION_FAILURES};
use common::model::{KeyPrefix, Scope, Scopes, TenantId};
use common::sealed::{DecryptionFailed, MasterKeys, api_key_binding};
use common::{clock, limited};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

/// How long a confirmation of the database is valid. Less than the second of D5, so that the refusal is sent within it.
pub(super) const MAX_STALENESS: Duration = Duration::from_millis(900);

/// Half of the prefixes of refused requests that are remembered.
const REFUSED_HALF: usize = 5_000;

/// Limits the log lines about keys whose secret cannot be decrypted, and about unknown scopes.
static KEYS: LogLimit<2> = LogLimit::new();

/// A key whose secret may not be readable.
pub(super) type OpenedKey = Result<Arc<ApiKey>, DecryptionFailed>;

/// The keys of all tenants; shared by all requests. About 0.46 kB for each, and twice as much while all are read again.
#[derive(Debug)]
pub(crate) struct Keys {
    masters: MasterKeys,
    by_prefix: RwLock<HashMap<KeyPrefix, OpenedKey>>,
    /// How many times keys were loaded.
    loads: AtomicU64,
    /// When the database was asked the last time that it had no further change.
    confirmed: watch::Sender<Option<Instant>>,
    /// Notified when a refusal needs a confirmation.
    pub(super) wanted: Notify,
    /// When the database last answered before a request with this prefix was refused.
    refused: Mutex<BoundedMap<KeyPrefix, Instant>>,
}

impl Keys {
    /// None yet. Decrypts their secrets with `masters`.
    pub(crate) fn new(masters: MasterKeys) -> Self {
        names::register_counter(SECRET_DECRYPTION_FAILURES, &[("kind", "key")]);
        Self {
            masters,
            by_prefix: RwLock::default(),
            loads: AtomicU64::new(0),
            confirmed: watch::Sender::default(),
            wanted: Notify::new(),
            refused: Mutex::new(BoundedMap::new(REFUSED_HALF)),
        }
    }

    /// The key of `prefix`, also when it is revoked or has expired; `None` when there is none.
    ///
    /// 503 `replay_store_unavailable` when the database has not confirmed the keys by `deadline`. The same when the secret cannot
    /// be decrypted: that is the operator's mistake (another master key), so the caller should retry and not replace a key
    /// that may be valid, as after a 401.
    pub(crate) async fn find(&self, prefix: &KeyPrefix, deadline: Instant) -> Result<Option<Arc<ApiKey>>, Refusal> {
        if !self.are_current() {
            self.until_answered(is_recent, deadline).await?;
        }
        self.last_known(prefix).transpose().map_err(|error| {
            limited!(KEYS[0], error, key = %prefix, %error, "secret decryption failed; responding 503 to requests of this key");
            metrics::counter!(SECRET_DECRYPTION_FAILURES, "kind" => "key").increment(1);
            Refusal::ReplayStoreUnavailable
        })
    }

    /// The key of `prefix` by the last confirmation, however long ago that was.
    pub(super) fn last_known(&self, prefix: &KeyPrefix) -> Option<OpenedKey> {
        self.by_prefix.read().get(prefix).cloned()
    }

    /// How many times keys were loaded.
    pub(crate) fn loads(&self) -> u64 {
        self.loads.load(Ordering::Acquire)
    }

    /// To be called before a request with `prefix` is refused: a key or secret may be so new that its notification is on the way. Has
    /// the database asked, once in [`MAX_STALENESS`] for a prefix, whether a key has it or not: the time of a refusal does not
    /// tell (D1). Returns whether the check before which there were so many `loads` should be repeated, because keys were loaded since,
    /// whichever these are. 503 as [`find`](Self::find).
    pub(crate) async fn ask_before_refusal(
        &self, prefix: &KeyPrefix, loads: u64, deadline: Instant,
    ) -> Result<bool, Refusal> {
        let answered = self.refused.lock().get(prefix).copied();
        if !answered.is_some_and(is_recent) {
            let now = Instant::now();
            self.until_answered(|asked| asked >= now, deadline).await?;
            self.refused.lock().insert(prefix.clone(), Instant::now());
        }
        Ok(self.loads() != loads)
    }

    /// Whether keys may be used.
    pub(crate) fn are_current(&self) -> bool {
        self.confirmed.borrow().is_some_and(is_recent)
    }

    /// Takes over what was loaded by a question to the database at `asked`; `is_whole` if these are all keys.
    pub(super) fn update(&self, opened: HashMap<KeyPrefix, OpenedKey>, is_whole: bool, asked: Instant) {
        if is_whole || !opened.is_empty() {
            let mut keys = self.by_prefix.write();
            if is_whole {
                let former = std::mem::replace(&mut *keys, opened);
                drop(keys);
                // There may be a million.
                drop(tokio::task::spawn_blocking(move || drop(former)));
            } else {
                keys.extend(opened);
            }
            self.loads.fetch_add(1, Ordering::Release);
        }
        self.confirmed.send_replace(Some(asked));
    }

    /// Waits until a question to the database has been answered whose time suffices.
    async fn until_answered(&self, suffices: impl Fn(Instant) -> bool, deadline: Instant) -> Result<(), Refusal> {
        let mut confirmed = self.confirmed.subscribe();
        self.wanted.notify_one();
        let answer = confirmed.wait_for(|asked| asked.is_some_and(&suffices));
        match timeout_at(deadline, answer).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Refusal::ReplayStoreUnavailable),
        }
    }

    /// A key as it is kept.
    pub(super) fn opened(&self, row: api_keys::Row) -> (KeyPrefix, OpenedKey) {
        (row.prefix.clone(), self.open(row).map(Arc::new))
    }

    fn open(&self, row: api_keys::Row) -> Result<ApiKey, DecryptionFailed> {
        let binding = api_key_binding(TenantId(row.tenant_id), row.prefix.as_str());
        let secret = self.masters.open(&row.secret_sealed, &binding)?;
        // One whose overlap has ended is not needed, so it need not be readable.
        let old_secret = row.old_secret.filter(|(_, until)| clock::database_now() < *until);
        let open_old =
            |(sealed, until): (Vec<u8>, _)| Ok(OldSecret { secret: self.masters.open(&sealed, &binding)?, until });
        let caller = Caller {
            tenant_id: TenantId(row.tenant_id),
            tenant: row.tenant,
            scopes: known_scopes(&row.prefix, &row.scopes),
            key: row.prefix,
            origin: row.origin,
        };
        Ok(ApiKey {
            caller: Arc::new(caller),
            secret,
            secret_number: row.secret_number,
            old_secret: old_secret.map(open_old).transpose()?,
            noted_minutes: NotedMinutes::default(),
            expires_at: row.expires_at,
            is_revoked: row.is_revoked,
            // The table admits only numbers above zero.
            reads_per_second: u32::try_from(row.reads_per_second).unwrap_or(1),
        })
    }
}

/// Whether a question that was asked then still confirms the keys: its answer may have taken long.
fn is_recent(asked: Instant) -> bool {
    asked.elapsed() < MAX_STALENESS
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

#[cfg(test)]
mod tests {
    use super::*;
    use common::sealed::MasterKey;
    use futures_util::FutureExt as _;

    fn keys() -> Keys {
        let master = MasterKey::parse("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=").unwrap();
        Keys::new(master.into())
    }

    fn prefix() -> KeyPrefix {
        KeyPrefix::parse("ck_1").unwrap()
    }

    #[tokio::test]
    async fn keys_are_used_while_the_database_confirms_them_and_no_longer() {
        let (keys, now) = (keys(), Instant::now());
        let soon = now + Duration::from_millis(20);
        assert!(keys.find(&prefix(), soon).await.is_err(), "nothing is loaded");
        keys.update(HashMap::new(), true, now - MAX_STALENESS);
        assert!(keys.find(&prefix(), soon).await.is_err(), "too long ago");
        keys.update(HashMap::new(), false, Instant::now());
        assert!(keys.find(&prefix(), soon).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn an_answer_that_took_long_confirms_nothing() {
        let (keys, prefix, now) = (keys(), prefix(), Instant::now());
        let mut found = Box::pin(keys.find(&prefix, now + Duration::from_secs(30)));
        assert!(found.as_mut().now_or_never().is_none());
        let asked = now - MAX_STALENESS + Duration::from_millis(1);
        while asked.elapsed() < MAX_STALENESS {
            std::hint::spin_loop();
        }
        keys.update(HashMap::new(), true, asked);
        assert!(found.as_mut().now_or_never().is_none());
        keys.update(HashMap::new(), false, Instant::now());
        assert!(found.await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_refusal_asks_once_and_again_after_a_while() {
        let (keys, prefix) = (keys(), prefix());
        let deadline = Instant::now() + Duration::from_secs(30);
        let loads = keys.loads();
        let mut refusal = Box::pin(keys.ask_before_refusal(&prefix, loads, deadline));
        assert!(refusal.as_mut().now_or_never().is_none());
        assert!(keys.wanted.notified().now_or_never().is_some(), "the database is asked");
        keys.update(HashMap::new(), true, Instant::now());
        assert!(refusal.await.unwrap(), "keys were loaded");
        assert!(keys.ask_before_refusal(&prefix, loads, deadline).await.unwrap(), "checked before they were loaded");
        keys.update(HashMap::new(), false, Instant::now());
        assert!(!keys.ask_before_refusal(&prefix, keys.loads(), deadline).await.unwrap());
        keys.refused.lock().insert(prefix.clone(), Instant::now() - MAX_STALENESS);
        assert!(keys.ask_before_refusal(&prefix, loads, deadline).now_or_never().is_none());
    }
}
