//! Authentication: the checks of D1, in its order, for any route.
//!
//! [`Auth::verify`] does steps 1 to 6, which change nothing. [`Auth::admit`] is step 7, which uses the signature up.
//! Between the two a handler makes sure that it can go on, so that a request refused for want of room, or of a broker,
//! may be sent again as it is.

mod checks;
mod credentials;
mod failure;
pub(crate) mod flights;
mod idempotency;
mod key;
mod key_cache;
mod key_watch;
mod keys;
mod look_ups;
mod replay;
mod replay_group;
mod used_signatures;

pub use credentials::Credentials;
pub use failure::Failure;
pub use idempotency::IdempotencyKey;
pub use key::Key;
pub use key_cache::KeyCache;
pub use key_watch::watch_keys;
pub use keys::Keys;
pub use replay::{Admission, ReplayStore};
pub use replay_group::{Entry, Stored};

use crate::error::Refusal;
use crate::reads::{Found, Reads};
use crate::request::RequestHead;
use crate::store::records::{RecordQuery, Wanted};
use common::caller::Caller;
use common::clock;
use common::model::Scope;
use common::signature::{Scheme, Signature};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Checks credentials; shared by all routes.
#[derive(Debug)]
pub struct Auth {
    keys: Keys,
    replays: ReplayStore,
    within: Duration,
}

/// A request that passed steps 1 to 6.
#[derive(Clone, Debug)]
pub struct Verified {
    key: Arc<Key>,
    signature: Signature,
    /// Until when it waits for the database.
    deadline: Instant,
}

impl Verified {
    /// Who sent it.
    pub fn caller(&self) -> &Caller {
        &self.key.caller
    }

    /// Records reads that its key may do per second (D23).
    pub fn reads_per_second(&self) -> u32 {
        self.key.reads_per_second
    }

    /// Until when it waits for the database.
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }
}

impl Auth {
    /// `within` bounds what one request waits for the database, keys and replay protection together.
    pub const fn new(keys: Keys, replays: ReplayStore, within: Duration) -> Self {
        Self { keys, replays, within }
    }

    /// Steps 1 to 6 of D1 for a route with `scheme` and `scope`.
    ///
    /// 401 and 403 as D1 says, counted by reason; 503 `replay_store_unavailable` when the key can't be looked up, and
    /// `overloaded` when too many look-ups of the same peer are before it.
    pub async fn verify(
        &self,
        head: &RequestHead,
        body: &[u8],
        scheme: Scheme,
        scope: Scope,
    ) -> Result<Verified, Refusal> {
        let deadline = Instant::now() + self.within;
        let credentials = Credentials::read(&head.headers).map_err(|failure| failure.refuse(None))?;
        let refuse = |failure: Failure| failure.refuse(Some(&credentials.key));
        let found = self.keys.find(&credentials.key, head.origin.peer(), deadline).await?;
        let signature = credentials.signature;
        let signed = checks::signed(scheme, head, body);
        let key = match checks::check_signature(found.key.clone(), &signature, signed, clock::now()) {
            Ok(key) => key,
            Err(failure) => {
                self.keys.refused(&credentials.key, &found, head.origin.peer(), deadline).await?;
                return Err(refuse(failure));
            }
        };
        checks::check_use(&key.caller, credentials.tenant, scope).map_err(refuse)?;
        Ok(Verified { key, signature, deadline })
    }

    /// Step 7: uses the signature up. `idempotency_key` is a records POST's (D3), `None` for all else.
    ///
    /// Gives whether the same request came before with that key. 401 when the signature was used otherwise, 503
    /// `replay_store_unavailable` when that can't be told in time.
    pub async fn admit(
        &self,
        verified: &Verified,
        idempotency_key: Option<IdempotencyKey>,
    ) -> Result<Seen, Refusal> {
        let entry = Entry::new(verified.caller(), &verified.signature, idempotency_key);
        seen(verified, self.replays.admit(entry, verified.deadline).await?)
    }

    /// Step 7 of a read, and what it reads: in one round trip where the entry and the records are in the same database,
    /// else both at the same time. Gives what was found only if the signature is admitted; `None` when nothing is
    /// `wanted`. Refuses as [`admit`](Self::admit) does.
    pub async fn admit_read(
        &self,
        verified: &Verified,
        reads: &Reads,
        wanted: Option<RecordQuery>,
    ) -> Result<Option<Found>, Refusal> {
        let Some(query) = wanted else {
            self.admit(verified, None).await?;
            return Ok(None);
        };
        let wanted = Wanted { tenant: verified.caller().tenant_id, query };
        if !reads.is_on_primary() {
            // A signature that is refused does not wait for the record.
            let found = async { Ok(reads.find(wanted, verified.deadline).await) };
            let (_, found) = tokio::try_join!(self.admit(verified, None), found)?;
            return Ok(Some(found));
        }
        let entry = Entry::new(verified.caller(), &verified.signature, None);
        if self.replays.is_used(&entry) {
            seen(verified, Admission::Replayed)?;
        }
        let (admission, found) = reads.admit_and_find(entry, wanted, verified.deadline).await?;
        seen(verified, admission)?;
        Ok(Some(found))
    }
}

/// What an admission means; 401 for a replay.
fn seen(verified: &Verified, admission: Admission) -> Result<Seen, Refusal> {
    match admission {
        Admission::Fresh => Ok(Seen::Never),
        Admission::SameKeyAgain => Ok(Seen::WithThisKey),
        Admission::Replayed => Err(Failure::Replayed.refuse(Some(&verified.caller().key))),
    }
}

/// Whether an admitted request was seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Its signature is new.
    Never,
    /// A POST whose signature came before with the same `Idempotency-Key`: an idempotent replay (D3).
    WithThisKey,
}
