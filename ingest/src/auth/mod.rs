//! Authentication: the checks of D1, in its order, for any route.
//!
//! [`Auth::verify`] does steps 1 to 6, which change nothing. [`Auth::admit`] is step 7, which uses the signature up.
//! Between the two a handler checks limits and the broker, so that a request that is refused as `overloaded` may be sent
//! again unchanged.

mod checks;
mod credentials;
mod failure;
mod key;
mod key_uses;
mod key_watch;
mod keys;

pub(crate) use credentials::{Credentials, HeaderFault};
pub use failure::AuthFailure;
pub(crate) use key::ApiKey;
pub(crate) use key_uses::KeyUses;
pub(crate) use key_watch::watch_keys;
pub(crate) use keys::Keys;

use crate::http::RequestHead;
use crate::http::idempotency_key::IdempotencyKey;
use crate::record_reads::{ReadResult, RecordReader};
use crate::refusal::Refusal;
use crate::refused::KeyRequestRecorder;
use crate::replay::{Admission, ReplayStore};
use crate::store::records::{RecordLookup, RecordQuery};
use crate::store::replay_entries::ReplayEntry;
use bytes::Bytes;
use common::caller::Caller;
use common::clock;
use common::model::Scope;
use common::signature::{Scheme, Signature};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Checks credentials; shared by all routes.
#[derive(Debug)]
pub(crate) struct Auth {
    keys: Arc<Keys>,
    uses: KeyUses,
    replays: ReplayStore,
    refused: KeyRequestRecorder,
    within: Duration,
}

/// A request that passed steps 1 to 6.
#[derive(Clone, Debug)]
pub(crate) struct Verified {
    key: Arc<ApiKey>,
    signature: Signature,
    /// Until when the request waits for the database.
    deadline: Instant,
}

impl Verified {
    pub(crate) fn caller(&self) -> &Caller {
        &self.key.caller
    }

    /// Records reads that its key may do per second (D23).
    pub(crate) fn reads_per_second(&self) -> u32 {
        self.key.reads_per_second
    }

    pub(crate) const fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Until when the request waits for the database.
    pub(crate) const fn deadline(&self) -> Instant {
        self.deadline
    }
}

impl Auth {
    /// `within` bounds what one request waits for the database, keys and replay protection together.
    pub(crate) const fn new(
        keys: Arc<Keys>,
        uses: KeyUses,
        replays: ReplayStore,
        refused: KeyRequestRecorder,
        within: Duration,
    ) -> Self {
        Self { keys, uses, replays, refused, within }
    }

    /// Steps 1 to 6 of D1 for a route with `scheme` and `scope`.
    ///
    /// 401 and 403 as in D1, counted by reason and noted for the owner of the key (D35); 503 `replay_store_unavailable` when the
    /// database does not confirm the keys in time.
    pub(crate) async fn verify(
        &self,
        head: &RequestHead,
        body: &Bytes,
        scheme: Scheme,
        scope: Scope,
    ) -> Result<Verified, Refusal> {
        let deadline = self.deadline();
        let credentials = Credentials::parse(&head.headers).map_err(|fault| {
            let failure = fault.failure;
            self.refused.note_headers(head, body, &fault);
            failure.refuse(None)
        })?;
        let refuse = |failure: AuthFailure| failure.refuse(Some(&credentials.key));
        let (signature, now) = (credentials.signature, clock::now());
        let check = async || {
            let key = self.keys.find(&credentials.key, deadline).await?;
            let exists = key.is_some();
            let signed = checks::signed(scheme, head, body);
            let checked = checks::check_signature(key, &signature, signed, now);
            Ok::<_, Refusal>(checked.map_err(|failure| (failure, exists)))
        };
        let mut checked = check().await?;
        if checked.is_err() && self.keys.ask_before_refusal(&credentials.key, deadline).await? {
            checked = check().await?;
        }
        let (key, secret) = checked.map_err(|(failure, exists)| {
            self.refused.note_signature(head, body, (&credentials.key, exists), &signature, failure);
            refuse(failure)
        })?;
        self.uses.note(&key, secret, now);
        checks::check_use(&key.caller, credentials.tenant, scope).map_err(|failure| {
            self.refused.note_use(head, body, (&credentials.key, &signature), failure, scope);
            refuse(failure)
        })?;
        Ok(Verified { key, signature, deadline })
    }

    /// Until when what begins now waits for the database.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.within
    }

    /// Checks again what may have changed since a request was verified that still waits (D5): whether its key is active, and has
    /// `scope`.
    pub(crate) async fn check_again(&self, verified: &Verified, scope: Scope) -> Result<(), Refusal> {
        let Caller { key: prefix, tenant, .. } = verified.caller();
        let key = self.keys.find(prefix, self.deadline()).await?;
        let checked = key.ok_or(AuthFailure::UnknownKey).and_then(|key| {
            key.check_active(clock::now())?;
            checks::check_use(&key.caller, tenant, scope)
        });
        checked.map_err(|failure| failure.refuse(Some(prefix)))
    }

    /// Step 7: uses the signature up. `idempotency_key` is that of a records POST (D3), and `None` for
    /// every other request.
    ///
    /// 401 when the signature was used before, unless it was with the same key (an idempotent replay); 503
    /// `replay_store_unavailable` when the database does not respond in time.
    pub(crate) async fn admit(
        &self,
        verified: &Verified,
        idempotency_key: Option<IdempotencyKey>,
    ) -> Result<(), Refusal> {
        let entry = ReplayEntry::new(verified.caller(), &verified.signature, idempotency_key);
        check_admission(verified, self.replays.admit(entry, verified.deadline).await?)
    }

    /// Uses up the signature of a read (step 7) and runs its query: in one round trip on the primary, or concurrently on the primary
    /// and the replica. Returns the result only if the signature is admitted; `None` when there is no query.
    /// Refuses as [`admit`](Self::admit) does.
    pub(crate) async fn admit_read(
        &self,
        verified: &Verified,
        reads: &RecordReader,
        query: Option<RecordQuery>,
    ) -> Result<Option<ReadResult>, Refusal> {
        let Some(query) = query else {
            self.admit(verified, None).await?;
            return Ok(None);
        };
        let lookup = RecordLookup { tenant: verified.caller().tenant_id, query };
        if reads.uses_replica() {
            // A signature that is refused does not wait for the record.
            let found = async { Ok(reads.find(lookup, verified.deadline).await) };
            let ((), found) = tokio::try_join!(self.admit(verified, None), found)?;
            return Ok(Some(found));
        }
        let entry = ReplayEntry::new(verified.caller(), &verified.signature, None);
        if self.replays.is_known_replay(&entry) {
            check_admission(verified, Admission::Replayed)?;
        }
        let (admission, found) = reads.admit_and_find(entry, lookup, verified.deadline).await?;
        check_admission(verified, admission)?;
        Ok(Some(found))
    }
}

/// 401 for a replay.
fn check_admission(verified: &Verified, admission: Admission) -> Result<(), Refusal> {
    match admission {
        Admission::Admitted => Ok(()),
        Admission::Replayed => Err(AuthFailure::Replayed.refuse(Some(&verified.caller().key))),
    }
}
