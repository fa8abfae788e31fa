//! One round trip to the database for a group of requests: their replay entries, and what they look up beside them.
//!
//! A round trip has one statement for all entries, and those of the look-ups, which are all of one kind: statements on
//! a connection wait for each other, and a locked table must not hold up the reads of another. Each commits by itself:
//! if a look-up fails, the entries are written nevertheless, and a request whose entry was refused gets nothing that
//! was found.

use super::Admission;
use super::known_replays::KnownReplays;
use super::verdicts::{decide_admissions, distinct_signatures, sort_by_signature};
use crate::group_queue::GroupHandler;
use crate::refusal::Refusal;
use crate::replay::partitions::ReplayPartitions;
use crate::store::connections::ConnectionSource;
use crate::store::replay_entries::{InsertOutcome, ReplayEntry};
use crate::store::{self, replay_entries};
use common::db::{Client, TxError};
use common::outage::Outage;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tracing::Span;

/// The fraction of a round trip's time that a look-up may take.
const QUERY_TIME_FRACTION: f64 = 0.75;

/// What a request looks up in the round trip of its replay entry.
pub(crate) trait Lookup: Debug + Send + Sync + Sized + 'static {
    type Found: Debug + Send + 'static;

    /// The results of the look-ups of a group. One without a response by `deadline` fails as unavailable.
    fn find<'a>(
        client: &'a Client, lookups: &'a [&'a Self], deadline: Instant,
    ) -> BoxFuture<'a, Vec<LookupResult<Self>>>;
}

pub(crate) type LookupResult<L> = Result<<L as Lookup>::Found, Arc<TxError>>;

/// Nothing is looked up.
#[derive(Debug)]
pub(super) enum NoLookup {}

impl Lookup for NoLookup {
    type Found = ();

    fn find<'a>(_: &'a Client, _: &'a [&'a Self], _: Instant) -> BoxFuture<'a, Vec<LookupResult<Self>>> {
        async { Vec::new() }.boxed()
    }
}

/// The part of a round trip that is for one request. No reply is sent once its receiver is dropped.
#[derive(Debug)]
pub(crate) struct StoreRequest<L: Lookup> {
    entry: Option<ReplayEntry>,
    lookup: Option<L>,
    /// The request's span, for log lines about it.
    span: Span,
    reply: oneshot::Sender<StoreResult<L>>,
}

/// The results for one request. A request whose entry could not be written gets no reply: its channel
/// ends.
#[derive(Debug)]
pub(crate) struct StoreResult<L: Lookup> {
    pub(crate) admission: Option<Admission>,
    pub(crate) found: Option<LookupResult<L>>,
}

impl<L: Lookup> StoreRequest<L> {
    pub(crate) fn new(entry: Option<ReplayEntry>, lookup: Option<L>) -> (Self, oneshot::Receiver<StoreResult<L>>) {
        let (reply, receiver) = oneshot::channel();
        (Self { entry, lookup, span: Span::current(), reply }, receiver)
    }
}

/// Waits for the reply. 503 `replay_store_unavailable` when there is none until `deadline`; the entry may have been
/// written nevertheless.
pub(crate) async fn await_result<L: Lookup>(
    receiver: oneshot::Receiver<StoreResult<L>>, deadline: Instant,
) -> Result<StoreResult<L>, Refusal> {
    match timeout_at(deadline, receiver).await {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(_)) | Err(_) => Err(Refusal::ReplayStoreUnavailable),
    }
}

/// What all round trips need to write entries.
#[derive(Debug)]
pub(crate) struct EntryContext {
    pub(super) partitions: ReplayPartitions,
    pub(super) known_replays: KnownReplays,
}

/// Sends the round trips to one database.
#[derive(Clone, Debug)]
pub(crate) struct StoreRoundTrips {
    pub(crate) connections: ConnectionSource,
    /// The longest time that one round trip may take.
    pub(crate) within: Duration,
    pub(crate) entries: Arc<EntryContext>,
    /// Whether entries can be written.
    pub(crate) outage: Arc<Outage>,
}

/// The outcome of inserting one entry.
type EntryResult = Result<InsertOutcome, Arc<TxError>>;

impl<L: Lookup> GroupHandler<StoreRequest<L>> for StoreRoundTrips {
    async fn run(&self, mut group: Vec<StoreRequest<L>>) {
        // Their callers have hung up, so their signatures stay unused.
        group.retain(|request| !request.reply.is_closed());
        if group.is_empty() {
            return;
        }
        sort_by_signature(&mut group, |request| request.entry.as_ref());
        let new = distinct_signatures(group.iter().filter_map(|request| request.entry.as_ref()));
        let lookups: Vec<&L> = group.iter().filter_map(|request| request.lookup.as_ref()).collect();
        let (entry_results, found) = self.send_round_trip(&new, &lookups).await;
        let verdicts = decide_admissions(group.iter().filter_map(|request| request.entry.as_ref()), &entry_results);
        self.send_replies(group, verdicts, found);
    }
}

impl StoreRoundTrips {
    /// Sends one round trip. Returns the outcome of each entry, and the result of each look-up. One that takes too long
    /// fails alone, and early enough that the other requests of the round trip get their response in time.
    async fn send_round_trip<L: Lookup>(
        &self, new: &[&ReplayEntry], lookups: &[&L],
    ) -> (Vec<EntryResult>, Vec<LookupResult<L>>) {
        let begun = Instant::now();
        let (deadline, query_deadline) = (begun + self.within, begun + self.within.mul_f64(QUERY_TIME_FRACTION));
        let round_trip = store::run_with_own_deadline(self.connections.client(), deadline, async |client| {
            // The statement of the entries is prepared first and by itself. Otherwise, on a new connection, the entries
            // would wait behind a look-up that waits for a lock. If preparing fails, inserting the entries fails in the
            // same way.
            drop(timeout_at(query_deadline, replay_entries::prepare(client, new)).await);
            let entry_results = timeout_at(deadline, replay_entries::insert(client, new));
            let (entry_results, found) = join(entry_results, L::find(client, lookups, query_deadline)).await;
            let entry_results =
                entry_results.map_or_else(|_| Err(TxError::no_response()), |done| done.map_err(TxError::from));
            let is_late = Instant::now() >= query_deadline;
            ((entry_results, found), is_late)
        });
        match round_trip.await {
            Ok((Ok(stored), found)) => (stored.into_iter().map(Ok).collect(), found),
            Ok((Err(error), found)) => (self.retry_insert(new, error).await, found),
            Err(error) => {
                let error = Arc::new(error);
                let failed = lookups.iter().map(|_| Err(Arc::clone(&error))).collect();
                (vec![Err(error); new.len()], failed)
            }
        }
    }

    /// Creates the missing partition and retries the insert; if one of several entries is refused, inserts each by
    /// itself. Only a statement that was certainly rolled back is repeated: otherwise it would take its own entries for
    /// replays.
    async fn retry_insert(&self, new: &[&ReplayEntry], mut error: TxError) -> Vec<EntryResult> {
        if replay_entries::is_partition_missing(&error) {
            match self.create_partition_and_insert(new).await {
                Ok(stored) => return stored.into_iter().map(Ok).collect(),
                Err(other) => error = other,
            }
        }
        if new.len() > 1 && replay_entries::is_refused_for_its_values(&error) {
            return self.insert_each(new).await;
        }
        vec![Err(Arc::new(error)); new.len()]
    }

    async fn create_partition_and_insert(&self, new: &[&ReplayEntry]) -> Result<Vec<InsertOutcome>, TxError> {
        self.entries.partitions.ensure_current(common::clock::now()).await?;
        let deadline = Instant::now() + self.within;
        store::run_until_on(self.connections.client(), deadline, async |client| {
            replay_entries::insert(client, new).await
        })
        .await
    }

    /// Writes each entry with a statement of its own, all sent at once.
    async fn insert_each(&self, new: &[&ReplayEntry]) -> Vec<EntryResult> {
        let deadline = Instant::now() + self.within;
        let each = store::run_until_on(self.connections.client(), deadline, async |client| {
            Ok(replay_entries::insert_each(client, new).await)
        });
        match each.await {
            Ok(each) => each.into_iter().map(|one| one.map_err(|error| Arc::new(error.into()))).collect(),
            Err(error) => vec![Err(Arc::new(error)); new.len()],
        }
    }

    fn send_replies<L: Lookup>(
        &self, group: Vec<StoreRequest<L>>, verdicts: Vec<Result<Admission, Arc<TxError>>>, found: Vec<LookupResult<L>>,
    ) {
        let has_succeeded = verdicts.iter().any(Result::is_ok);
        let (mut verdicts, mut found) = (verdicts.into_iter(), found.into_iter());
        for StoreRequest { entry, lookup, span, reply } in group {
            let found = lookup.and_then(|_| found.next());
            let admission = match entry.as_ref().and_then(|_| verdicts.next()) {
                Some(Err(error)) => {
                    span.in_scope(|| self.outage.report_failure(&error));
                    continue;
                }
                Some(Ok(admission)) => Some(admission),
                None => None,
            };
            if let (Some(entry), Some(Admission::Replayed)) = (&entry, admission)
                && entry.idempotency_key.is_none()
            {
                self.entries.known_replays.insert(entry);
            }
            // The receiver is dropped if the request no longer waits.
            let _ = reply.send(StoreResult { admission, found });
        }
        if has_succeeded {
            self.outage.report_success();
        }
    }
}
