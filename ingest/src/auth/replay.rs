//! The replay store: a signature can be used once (specification: Authentication, 3; D2, D3).
//!
//! Group commit: requests queue, and a lane takes all that wait and remembers them with one statement, so that a round
//! trip and a commit are shared by all that arrived during the one before.

use super::flights::{EntryRules, Flights, Passenger, reply};
use super::replay_group::Entry;
use super::used_signatures::UsedSignatures;
use crate::bound::Bound;
use crate::error::Refusal;
use crate::lanes::{LaneSettings, Lanes};
use crate::maintenance::Partitions;
use crate::outage::Outage;
use common::db::Database;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The second lane only takes over while the first one waits for a lock or a disk: two at once make the groups smaller
/// and the replies slower. A statement takes some tenths of a millisecond.
const LANES: LaneSettings = LaneSettings {
    lanes: ReplayStore::CONNECTIONS,
    group: 256,
    patience: Duration::from_millis(10),
    queue: 4_096,
};

/// What the store says of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is new, and now remembered.
    Fresh,
    /// It came before with the same `Idempotency-Key`.
    SameKeyAgain,
    /// It came before.
    Replayed,
}

/// A handle to the store.
#[derive(Debug)]
pub struct ReplayStore {
    lanes: Lanes<Passenger>,
    flights: Flights,
}

impl ReplayStore {
    /// Connections that it uses at once.
    pub const CONNECTIONS: usize = 2;

    /// Starts the lanes, which live as long as the value. `within` bounds the time that a statement takes.
    pub fn start(db: Database, partitions: Partitions, within: Duration) -> Self {
        let entries = Arc::new(EntryRules { partitions, used: UsedSignatures::default() });
        let flights = Flights { db, within, entries, outage: Arc::new(Outage::new("replay store")) };
        Self { lanes: Lanes::start("replay store", LANES, flights.clone()), flights }
    }

    /// Flights that follow the same rules, to another pool with an outage of its own.
    pub(crate) fn flights_to(&self, db: Database, outage: Arc<Outage>) -> Flights {
        Flights { db, outage, ..self.flights.clone() }
    }

    /// Whether the signature is known to be used without asking the database.
    pub(super) fn is_used(&self, entry: &Entry) -> bool {
        self.flights.entries.used.contains(entry)
    }

    /// Uses up a signature.
    ///
    /// 503 `overloaded` when too many wait; 503 `replay_store_unavailable` when there is no verdict until `deadline`.
    /// In the latter case the signature may have been remembered all the same.
    pub async fn admit(&self, entry: Entry, deadline: Instant) -> Result<Admission, Refusal> {
        if self.is_used(&entry) {
            return Ok(Admission::Replayed);
        }
        let (passenger, told) = Passenger::new(Some(entry), None);
        self.lanes.push(passenger).map_err(|_| Bound::ReplayStore.refuse())?;
        reply(told, deadline).await?.admission.ok_or(Refusal::ReplayStoreUnavailable)
    }
}
