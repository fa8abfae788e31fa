//! Reads of records on one server.
//!
//! Reads of one kind of record by id, and looks for a delivery, that arrive together share a round trip, see
//! [`crate::group_queue`]; anything else has a round trip of its own. Each kind has a queue of its own,
//! and a connection that is reserved for it, see [`super::pools`].

use super::ReadError;
use super::pools::ReadPools;
use crate::group_queue::{GroupHandler, GroupQueue, GroupQueueSettings};
use crate::replay::ReplayStore;
use crate::replay::round_trips::{Lookup, LookupResult, StoreRequest, StoreResult, StoreRoundTrips, await_result};
use crate::store::records::{self, RecordKind, RecordLookup};
use crate::store::replay_entries::ReplayEntry;
use common::db::Client;
use common::metrics::RECORD_READS;
use common::outage::Outage;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use metrics::Counter;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_postgres::Row;

/// Reads of one kind that may wait. With the default settings fewer are ever under way.
const QUEUE: usize = 4_096;
/// The most reads of one group.
const GROUP: usize = 64;
/// Groups of a kind that have a turn: while the database works on one, ingest handles the other. Measured, both together
/// are faster than one of twice the size, unlike groups of replay entries.
const TURNS: usize = 2;
/// How long a group may take before its turn ends. A statement takes some tenths of a millisecond.
const OVERTAKE_AFTER: Duration = Duration::from_millis(2);

impl Lookup for RecordLookup {
    type Found = Vec<Row>;

    fn find<'a>(
        client: &'a Client, lookups: &'a [&'a Self], deadline: Instant,
    ) -> BoxFuture<'a, Vec<LookupResult<Self>>> {
        records::find(client, lookups, deadline).boxed()
    }
}

/// The reads of records on one server.
#[derive(Debug)]
pub(super) struct ServerReads {
    /// In the order of [`RecordKind::ALL`].
    kinds: [ReadsOfKind; RecordKind::ALL.len()],
    /// How long a read may take.
    within: Duration,
    reads: Counter,
}

/// The reads of one kind of record.
#[derive(Debug)]
struct ReadsOfKind {
    queue: GroupQueue<StoreRequest<RecordLookup>>,
    round_trips: StoreRoundTrips,
}

impl ServerReads {
    /// Sends round trips on the connections of `pools`, with entries as `replays` writes them. A read may take
    /// `within`. `server` is the metric's label.
    pub(super) fn start(
        server: &'static str, replays: &ReplayStore, pools: &ReadPools, within: Duration, outage: &Arc<Outage>,
    ) -> Self {
        let kinds = RecordKind::ALL.map(|kind| {
            let round_trips = replays.round_trips_to(pools.of(kind), Arc::clone(outage));
            ReadsOfKind::start(StoreRoundTrips { within, ..round_trips })
        });
        let reads = metrics::counter!(RECORD_READS, "server" => server);
        reads.absolute(0);
        Self { kinds, within, reads }
    }

    /// Looks records up, in one round trip with the replay entry if there is one. Gives up at `deadline`, or before if
    /// the server does not respond in its time.
    pub(super) async fn send(
        &self, entry: Option<ReplayEntry>, lookup: RecordLookup, deadline: Instant,
    ) -> Result<StoreResult<RecordLookup>, ReadError> {
        self.reads.increment(1);
        let ReadsOfKind { queue, round_trips } = &self.kinds[lookup.query.kind() as usize];
        let is_shared = lookup.query.is_shared();
        let (request, receiver) = StoreRequest::new(entry, Some(lookup));
        let reply = await_result(receiver, deadline.min(Instant::now() + self.within));
        if is_shared {
            queue.push(request).map_err(|_| ReadError::TimedOut)?;
            return reply.await.map_err(|_| ReadError::TimedOut);
        }
        // On its own, so that a slow look-up delays no other.
        let mut reply = pin!(reply);
        let reply = tokio::select! {
            found = &mut reply => found,
            () = round_trips.run(vec![request]) => reply.await,
        };
        reply.map_err(|_| ReadError::TimedOut)
    }
}

impl ReadsOfKind {
    fn start(round_trips: StoreRoundTrips) -> Self {
        // One more task than connections: while all are in use it waits for one, which the pools' metrics show.
        let concurrency = round_trips.connections.max_size() + 1;
        let settings = GroupQueueSettings {
            concurrency,
            turns: TURNS.min(round_trips.connections.max_size()),
            max_group: GROUP,
            overtake_after: OVERTAKE_AFTER,
            queue: QUEUE,
        };
        Self { queue: GroupQueue::start("records reads", settings, round_trips.clone()), round_trips }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::partitions::ReplayPartitions;
    use crate::store::records::RecordQuery;
    use crate::store::{self, unused_database};
    use common::model::{ClientId, LeadId, TenantId};
    use uuid::Uuid;

    #[tokio::test]
    async fn beyond_the_bound_reads_of_a_kind_are_refused_and_those_of_another_are_not() {
        let db = unused_database(1);
        let replays = ReplayStore::start(db.clone(), ReplayPartitions::new(db), Duration::from_secs(1));
        let outage = Arc::new(store::outage_of_requests("test"));
        let (pools, within) = (ReadPools::new(8, unused_database), Duration::from_secs(60));
        let reads = ServerReads::start("primary", &replays, &pools, within, &outage);
        let deadline = Instant::now() + Duration::from_secs(60);
        let find = |query| {
            let lookup = RecordLookup { tenant: TenantId(Uuid::nil()), query };
            reads.send(None, lookup, deadline).now_or_never()
        };
        // Nothing is taken: the tasks run when this test waits for something.
        let client = || RecordQuery::Client(ClientId(Uuid::nil()));
        let waiting = (0..=QUEUE).take_while(|_| find(client()).is_none()).count();
        assert_eq!(waiting, QUEUE);
        assert!(matches!(find(client()), Some(Err(ReadError::TimedOut))));
        assert!(find(RecordQuery::Lead(LeadId(Uuid::nil()))).is_none());
        assert!(find(RecordQuery::Trip(LeadId(Uuid::nil()))).is_none());
    }
}
