//! Step 7 of D1: a signature can be used once (specification: Authentication, 3; D2, D3). This is about signatures, not
//! about the replay of webhooks.
//!
//! Group commit: requests queue, and one statement writes the entries of all that wait, so that requests that arrive
//! during one round trip share the next round trip and its commit.

mod known_replays;
pub(crate) mod partitions;
pub(crate) mod round_trips;
mod verdicts;

use crate::auth::{AuthFailure, Verified};
use crate::group_queue::{GroupQueue, GroupQueueSettings};
use crate::refusal::Refusal;
use crate::replay::partitions::ReplayPartitions;
use crate::store;
use crate::store::connections::ConnectionSource;
use crate::store::replay_entries::ReplayEntry;
use common::db::Database;
use common::outage::Outage;
use known_replays::KnownReplays;
use round_trips::{EntryContext, NoLookup, StoreRequest, StoreRoundTrips, await_result};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The second task starts only while the first one waits for a lock or a disk. Two round trips at once would make
/// groups smaller and responses slower. A statement takes some tenths of a millisecond.
const GROUPING: GroupQueueSettings = GroupQueueSettings {
    concurrency: ReplayStore::CONNECTIONS,
    turns: 1,
    max_group: 256,
    overtake_after: Duration::from_millis(10),
    queue: 4_096,
};

/// The store's verdict on a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// New, and stored now; or used before with the same `Idempotency-Key`, which is an idempotent replay (D3).
    Admitted,
    /// Used before in any other way.
    Replayed,
}

impl Admission {
    /// 401 for a replay.
    pub(crate) fn check(self, verified: &Verified) -> Result<(), Refusal> {
        match self {
            Self::Admitted => Ok(()),
            Self::Replayed => Err(AuthFailure::Replayed.refuse(Some(verified.caller()))),
        }
    }
}

/// Writes replay entries in groups.
#[derive(Debug)]
pub(crate) struct ReplayStore {
    queue: GroupQueue<StoreRequest<NoLookup>>,
    round_trips: StoreRoundTrips,
}

impl ReplayStore {
    /// The most connections that it uses at once.
    pub(crate) const CONNECTIONS: usize = 2;

    /// Starts the tasks that write entries; they end when the value is dropped. `within` is the longest time for a
    /// statement.
    pub(crate) fn start(db: Database, partitions: ReplayPartitions, within: Duration) -> Self {
        let entries = Arc::new(EntryContext { partitions, known_replays: KnownReplays::default() });
        let round_trips = StoreRoundTrips {
            connections: db.into(),
            within,
            entries,
            outage: Arc::new(store::outage_of_requests("replay store")),
        };
        Self { queue: GroupQueue::start("replay store", GROUPING, round_trips.clone()), round_trips }
    }

    /// The same round trips on other connections with an outage of their own.
    pub(crate) fn round_trips_to(&self, connections: ConnectionSource, outage: Arc<Outage>) -> StoreRoundTrips {
        StoreRoundTrips { connections, outage, ..self.round_trips.clone() }
    }

    /// The entry of a request. `idempotency_key` is that of a records POST (D3), and `None` for every other request. 401
    /// when memory alone tells that the signature was used before.
    pub(crate) fn entry(&self, verified: &Verified, idempotency_key: Option<String>) -> Result<ReplayEntry, Refusal> {
        let entry = ReplayEntry::new(verified.caller(), verified.signature(), idempotency_key);
        if self.round_trips.entries.known_replays.contains(&entry) {
            Admission::Replayed.check(verified)?;
        }
        Ok(entry)
    }

    /// Uses up the signature of a request.
    ///
    /// 401 when it was used before, unless it was with the same key (an idempotent replay); 503
    /// `replay_store_unavailable` when too many requests wait, or when there is no verdict in time. In the latter case
    /// the signature may have been stored nevertheless.
    pub(crate) async fn use_up(&self, verified: &Verified, entry: ReplayEntry) -> Result<(), Refusal> {
        self.admit(entry, verified.deadline()).await?.check(verified)
    }

    async fn admit(&self, entry: ReplayEntry, deadline: Instant) -> Result<Admission, Refusal> {
        let (request, receiver) = StoreRequest::new(Some(entry), None);
        self.queue.push(request).map_err(|_| Refusal::ReplayStoreUnavailable)?;
        await_result(receiver, deadline).await?.admission.ok_or(Refusal::ReplayStoreUnavailable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::replay_entries::testing::entry;
    use crate::store::unused_database;
    use futures_util::FutureExt;
    use tokio::task::yield_now;

    #[tokio::test]
    async fn beyond_the_bound_signatures_are_refused_until_those_that_wait_are_taken() {
        let db = unused_database(ReplayStore::CONNECTIONS);
        let store = ReplayStore::start(db.clone(), ReplayPartitions::new(db), Duration::from_secs(1));
        let deadline = Instant::now() + Duration::from_secs(60);
        let admit = |number| store.admit(entry(number), deadline).now_or_never();
        // Nothing is taken: the tasks run when this test waits for something.
        let waiting = (0..).take_while(|number| admit(*number).is_none()).count();
        assert_eq!(waiting, GROUPING.queue);
        assert_eq!(admit(0), Some(Err(Refusal::ReplayStoreUnavailable)));
        // Their callers have gone, so that the tasks take them without asking the database.
        while admit(0).is_some() {
            yield_now().await;
        }
    }
}
