//! Reads of records. A record of another tenant is not found (D18).
//!
//! Reads of one kind of record by id that arrive together share a round trip, see [`crate::group_queue`]; a look-up by anything else
//! has a round trip of its own. Each kind has a queue of its own, and a connection that is reserved for it, see [`crate::read_pools`].
//! Where the records are in the same database as the replay entries, a round trip writes the reads' entries as well.

use crate::group_queue::{GroupHandler, GroupQueue, GroupQueueSettings};
use crate::outage::Outage;
use crate::overload::OverloadReason;
use crate::read_pools::ReadPools;
use crate::refusal::Refusal;
use crate::replay::round_trips::{StoreRequest, StoreResult, StoreRoundTrips, await_result};
use crate::replay::{Admission, ReplayStore};
use crate::store::RowError;
use crate::store::records::{RecordKind, RecordLookup};
use crate::store::replay_entries::ReplayEntry;
use common::db::TxError;
use common::limited;
use common::log_limit::LogLimit;
use common::write::WriteRefusal;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_postgres::Row;

/// Limits the log lines of failed reads.
static FAULTS: LogLimit<2> = LogLimit::new();

/// Reads of one kind that may wait. With the default settings fewer are ever under way.
const QUEUE: usize = 4_096;
/// The most reads of one group.
const GROUP: usize = 64;
/// How long a group may take before the next one begins beside it. A statement takes some tenths of a millisecond.
const OVERTAKE_AFTER: Duration = Duration::from_millis(2);

/// Why a read failed. [`RecordReader::rows`] logs and counts it.
#[derive(Clone, Debug)]
pub(crate) enum ReadError {
    QueueFull,
    /// The database did not respond in time.
    TimedOut,
    Database(Arc<TxError>),
}

/// The result of a read. Callers must not return, log or count it before the signature is admitted.
pub(crate) type ReadResult = Result<Vec<Row>, ReadError>;

#[derive(Debug)]
pub(crate) struct RecordReader {
    /// In the order of [`RecordKind::ALL`].
    kinds: [ReadsOfKind; RecordKind::ALL.len()],
    outage: Arc<Outage>,
    is_on_primary: bool,
}

/// The reads of one kind of record.
#[derive(Debug)]
struct ReadsOfKind {
    queue: GroupQueue<StoreRequest>,
    round_trips: StoreRoundTrips,
}

impl RecordReader {
    /// Sends round trips on the connections of `pools`, with entries as `replays` writes them. `is_on_primary` says whether
    /// the pools connect to the database of the replay entries.
    pub(crate) fn start(replays: &ReplayStore, pools: &ReadPools, is_on_primary: bool) -> Self {
        let outage = Arc::new(Outage::of_requests("records reads"));
        let kinds = RecordKind::ALL
            .map(|kind| ReadsOfKind::start(replays.round_trips_to(pools.of(kind), Arc::clone(&outage))));
        Self { kinds, outage, is_on_primary }
    }

    /// Whether [`admit_and_find`](Self::admit_and_find) may be used.
    pub(crate) const fn is_on_primary(&self) -> bool {
        self.is_on_primary
    }

    /// Uses up a signature and looks records up, in one round trip. 503 when there is no verdict on the signature.
    pub(crate) async fn admit_and_find(
        &self,
        entry: ReplayEntry,
        lookup: RecordLookup,
        deadline: Instant,
    ) -> Result<(Admission, ReadResult), Refusal> {
        let reply = self.send(Some(entry), lookup, deadline).await.map_err(|fault| match fault {
            ReadError::QueueFull => OverloadReason::Reads.refuse(),
            ReadError::TimedOut | ReadError::Database(_) => Refusal::ReplayStoreUnavailable,
        })?;
        let admission = reply.admission.ok_or(Refusal::ReplayStoreUnavailable)?;
        Ok((admission, found(reply.rows)))
    }

    pub(crate) async fn find(&self, lookup: RecordLookup, deadline: Instant) -> ReadResult {
        found(self.send(None, lookup, deadline).await?.rows)
    }

    async fn send(
        &self,
        entry: Option<ReplayEntry>,
        lookup: RecordLookup,
        deadline: Instant,
    ) -> Result<StoreResult, ReadError> {
        let ReadsOfKind { queue, round_trips } = &self.kinds[lookup.query.kind() as usize];
        let is_by_id = lookup.query.is_by_id();
        let (request, receiver) = StoreRequest::new(entry, Some(lookup));
        let reply = await_result(receiver, deadline);
        if is_by_id {
            queue.push(request).map_err(|_| ReadError::QueueFull)?;
            return reply.await.map_err(|_| ReadError::TimedOut);
        }
        // On its own, so that a slow look-up delays no other.
        let ((), reply) = futures_util::future::join(round_trips.run(vec![request]), reply).await;
        reply.map_err(|_| ReadError::TimedOut)
    }

    /// The rows of a read (D21c). 503 `overloaded` when too many reads wait, 503 `replay_store_unavailable` when the database is
    /// unavailable, 500 when it refused the query.
    pub(crate) fn rows(&self, found: ReadResult) -> Result<Vec<Row>, Refusal> {
        match found {
            Ok(rows) => {
                self.outage.report_success();
                Ok(rows)
            }
            Err(ReadError::QueueFull) => Err(OverloadReason::Reads.refuse()),
            Err(ReadError::TimedOut) => Err(Refusal::ReplayStoreUnavailable),
            Err(ReadError::Database(error)) => Err(self.failed(&error)),
        }
    }

    fn failed(&self, error: &TxError) -> Refusal {
        match error {
            TxError::Unavailable(_) | TxError::Conflict(_) | TxError::Stale(_) => {
                self.outage.report_failure(error);
                Refusal::ReplayStoreUnavailable
            }
            TxError::StatementFailed(_) | TxError::Abandoned(_) => {
                limited!(FAULTS[0], error, %error, "the database refused a records query; responding 500");
                Refusal::Internal
            }
        }
    }
}

impl ReadsOfKind {
    fn start(round_trips: StoreRoundTrips) -> Self {
        // One more task than connections: while all are in use it waits for one, which the pools' metrics show.
        let concurrency = round_trips.connections.max_size() + 1;
        let settings = GroupQueueSettings {
            concurrency,
            max_group: GROUP,
            overtake_after: OVERTAKE_AFTER,
            queue: QUEUE,
        };
        Self { queue: GroupQueue::start("records reads", settings, round_trips.clone()), round_trips }
    }
}

fn found(rows: Option<Result<Vec<Row>, Arc<TxError>>>) -> ReadResult {
    rows.unwrap_or_else(|| Ok(Vec::new())).map_err(ReadError::Database)
}

/// Logs a row that does not match the schema, and refuses the request with 500.
pub(crate) fn or_internal_error<V>(read: Result<V, RowError>) -> Result<V, Refusal> {
    read.map_err(|error| {
        limited!(FAULTS[1], error, %error, "a record does not match the schema; responding 500");
        Refusal::Internal
    })
}

/// The refusal of a read whose record does not exist.
pub(crate) const fn not_found() -> Refusal {
    Refusal::Write(WriteRefusal::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::partitions::ReplayPartitions;
    use crate::store::records::RecordQuery;
    use crate::store::unused_database;
    use common::model::{ClientId, LeadId, TenantId};
    use futures_util::FutureExt;
    use uuid::Uuid;

    #[tokio::test]
    async fn beyond_the_bound_reads_of_a_kind_are_refused_and_those_of_another_are_not() {
        let db = unused_database(1);
        let replays = ReplayStore::start(db.clone(), ReplayPartitions::new(db), Duration::from_secs(1));
        let reads = RecordReader::start(&replays, &ReadPools::new(8, unused_database), true);
        let deadline = Instant::now() + Duration::from_secs(60);
        let find = |query| {
            let lookup = RecordLookup { tenant: TenantId(Uuid::nil()), query };
            reads.find(lookup, deadline).now_or_never()
        };
        // Nothing is taken: the tasks run when this test waits for something.
        let client = || RecordQuery::Client(ClientId(Uuid::nil()));
        let waiting = (0..=QUEUE).take_while(|_| find(client()).is_none()).count();
        assert_eq!(waiting, QUEUE);
        assert!(matches!(find(client()), Some(Err(ReadError::QueueFull))));
        assert!(find(RecordQuery::Lead(LeadId(Uuid::nil()))).is_none());
        assert!(find(RecordQuery::Trip(LeadId(Uuid::nil()))).is_none());
    }
}
