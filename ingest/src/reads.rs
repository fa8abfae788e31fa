//! Reads of records. A record of another agency isn't there.
//!
//! Reads of records by id that arrive together share a flight, see [`crate::lanes`]; a look-up by anything else flies alone.
//! Where the records are in the same database as the replay entries, a flight takes the reads' entries along.

use crate::auth::flights::{Flights, Passenger, Reply, reply};
use crate::auth::{Admission, Entry};
use crate::bound::Bound;
use crate::error::Refusal;
use crate::lanes::{LaneSettings, Lanes, Work};
use crate::store::Unreadable;
use crate::store::records::Wanted;
use common::db::TxError;
use common::limited;
use common::log_limit::LogLimit;
use common::write::WriteRefusal;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_postgres::Row;

/// Which faults are logged.
static FAULTS: LogLimit<2> = LogLimit::new();

/// Reads that may wait to be sent. More than are ever under way, unless the settings say otherwise.
const QUEUE: usize = 4_096;
/// Most reads of one flight.
const GROUP: usize = 64;
/// How long the next flight waits for the one under way. A statement takes some tenths of a millisecond.
const PATIENCE: Duration = Duration::from_millis(2);

/// What a look-up of clients compares, in the form that is stored (D10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientKey {
    /// Trimmed and lower case.
    Email(String),
    /// Trimmed.
    ExternalId(String),
    /// Digits only.
    Phone(String),
}

impl ClientKey {
    /// The first of the three that says anything (specification: GET /clients); `None` when none does.
    pub fn first(email: Option<String>, external_id: Option<String>, phone: Option<&str>) -> Option<Self> {
        let digits = |phone: &str| phone.chars().filter(char::is_ascii_digit).collect::<String>();
        email
            .map(|email| Self::Email(email.trim().to_lowercase()))
            .or(external_id.map(|id| Self::ExternalId(id.trim().to_owned())))
            .or_else(|| phone.map(digits).filter(|digits| !digits.is_empty()).map(Self::Phone))
    }
}

/// Why nothing is known of a record. [`Reads::rows`] logs and counts it.
#[derive(Clone, Debug)]
pub enum ReadFault {
    /// Too many wait.
    QueueFull,
    /// The database didn't answer in time.
    Late,
    /// The statement failed.
    Database(Arc<TxError>),
}

/// What a read found. Nothing of it may be shown, logged or counted before its signature is admitted.
pub type Found = Result<Vec<Row>, ReadFault>;

/// The records.
#[derive(Debug)]
pub struct Reads {
    lanes: Lanes<Passenger>,
    flights: Flights,
    is_on_primary: bool,
}

impl Reads {
    /// Sends `flights`, up to `connections` at once. `is_on_primary` where they go to the database of the replay entries.
    pub(crate) fn start(flights: Flights, connections: usize, is_on_primary: bool) -> Self {
        // One more than there are connections: while all of them are in use, it waits for one, which the pool's metrics show.
        let settings =
            LaneSettings { lanes: connections + 1, group: GROUP, patience: PATIENCE, queue: QUEUE };
        let lanes = Lanes::start("records reads", settings, flights.clone());
        Self { lanes, flights, is_on_primary }
    }

    /// Whether [`admit_and_find`](Self::admit_and_find) may be used.
    pub(crate) const fn is_on_primary(&self) -> bool {
        self.is_on_primary
    }

    /// Uses up a signature and looks records up, in one round trip. 503 when there is no verdict on the signature.
    pub(crate) async fn admit_and_find(
        &self,
        entry: Entry,
        wanted: Wanted,
        deadline: Instant,
    ) -> Result<(Admission, Found), Refusal> {
        let reply = self.send(Some(entry), wanted, deadline).await.map_err(|fault| match fault {
            ReadFault::QueueFull => Bound::Reads.refuse(),
            ReadFault::Late | ReadFault::Database(_) => Refusal::ReplayStoreUnavailable,
        })?;
        let admission = reply.admission.ok_or(Refusal::ReplayStoreUnavailable)?;
        Ok((admission, found(reply.rows)))
    }

    /// Looks records up.
    pub(crate) async fn find(&self, wanted: Wanted, deadline: Instant) -> Found {
        found(self.send(None, wanted, deadline).await?.rows)
    }

    async fn send(
        &self,
        entry: Option<Entry>,
        wanted: Wanted,
        deadline: Instant,
    ) -> Result<Reply, ReadFault> {
        let is_by_id = wanted.query.is_by_id();
        let (passenger, told) = Passenger::new(entry, Some(wanted));
        let reply = reply(told, deadline);
        if is_by_id {
            self.lanes.push(passenger).map_err(|_| ReadFault::QueueFull)?;
            return reply.await.map_err(|_| ReadFault::Late);
        }
        // Alone, so that one that takes long holds up no other.
        let ((), reply) = futures_util::future::join(self.flights.run(vec![passenger]), reply).await;
        reply.map_err(|_| ReadFault::Late)
    }

    /// The rows that were found. 503 `overloaded` when too many reads wait, 503 `replay_store_unavailable` when the
    /// database is unavailable, 500 when it refused.
    pub(crate) fn rows(&self, found: Found) -> Result<Vec<Row>, Refusal> {
        match found {
            Ok(rows) => {
                self.flights.outage.worked();
                Ok(rows)
            }
            Err(ReadFault::QueueFull) => Err(Bound::Reads.refuse()),
            Err(ReadFault::Late) => Err(Refusal::ReplayStoreUnavailable),
            Err(ReadFault::Database(error)) => Err(self.failed(&error)),
        }
    }

    fn failed(&self, error: &TxError) -> Refusal {
        match error {
            TxError::Unavailable(_) | TxError::Conflict(_) | TxError::Stale(_) => {
                self.flights.outage.failed(error);
                Refusal::ReplayStoreUnavailable
            }
            TxError::Refused(_) | TxError::Abandoned(_) => {
                limited!(FAULTS[0], error, %error, "a read was refused");
                Refusal::Internal
            }
        }
    }
}

fn found(rows: Option<Result<Vec<Row>, Arc<TxError>>>) -> Found {
    rows.unwrap_or_else(|| Ok(Vec::new())).map_err(ReadFault::Database)
}

/// Reads a row. 500 when it doesn't hold what the schema promises.
pub(crate) fn readable<V>(read: Result<V, Unreadable>) -> Result<V, Refusal> {
    read.map_err(|error| {
        limited!(FAULTS[1], error, %error, "a record can't be read");
        Refusal::Internal
    })
}

/// The answer to a read of what isn't there.
pub(crate) const fn not_found() -> Refusal {
    Refusal::Write(WriteRefusal::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_identity_that_says_anything_is_looked_up_in_its_stored_form() {
        let first = |email: &str, id: &str, phone: &str| {
            let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            ClientKey::first(some(email), some(id), some(phone).as_deref())
        };
        assert_eq!(first(" Ana@B.C ", "x", "1"), Some(ClientKey::Email("ana@b.c".to_owned())));
        assert_eq!(first("", "X 1", "1"), Some(ClientKey::ExternalId("X 1".to_owned())));
        assert_eq!(first("", "", " (030) 1-2"), Some(ClientKey::Phone("03012".to_owned())));
        assert_eq!(first("", "", "n/a"), None);
    }
}
