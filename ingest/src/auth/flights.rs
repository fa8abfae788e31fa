//! Flights to the database: the replay entries of a group of requests and the records that they read, in one round trip.
//!
//! A flight has one statement for all entries, and one for each kind of record. Each commits by itself: what fails to be
//! read leaves the entries written, and nothing that was read is shown to a request whose entry was refused.

use super::replay::Admission;
use super::replay_group::{Entry, Stored, firsts, judge, sort};
use super::used_signatures::UsedSignatures;
use crate::error::Refusal;
use crate::lanes::Work;
use crate::maintenance::Partitions;
use crate::outage::Outage;
use crate::store::records::{self, Rows, Wanted};
use crate::store::{self, replay_entries};
use common::db::{Database, TxError};
use futures_util::future::join;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tracing::Span;

/// The part of a flight's time that a query of records may take.
const QUERY_TIME: f64 = 0.75;

/// What a request wants of a flight. Nobody is told when its receiver is gone.
#[derive(Debug)]
pub(crate) struct Passenger {
    entry: Option<Entry>,
    wanted: Option<Wanted>,
    /// What log lines about it name.
    span: Span,
    reply: oneshot::Sender<Reply>,
}

/// What a request is told, of what it wanted. A request whose entry could not be written is told nothing: its channel
/// ends.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) admission: Option<Admission>,
    pub(crate) rows: Option<Rows>,
}

impl Passenger {
    pub(crate) fn new(entry: Option<Entry>, wanted: Option<Wanted>) -> (Self, oneshot::Receiver<Reply>) {
        let (reply, told) = oneshot::channel();
        (Self { entry, wanted, span: Span::current(), reply }, told)
    }
}

/// Waits for the reply. 503 `replay_store_unavailable` when there is none until `deadline`; an entry may have been
/// written all the same.
pub(crate) async fn reply(told: oneshot::Receiver<Reply>, deadline: Instant) -> Result<Reply, Refusal> {
    match timeout_at(deadline, told).await {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(_)) | Err(_) => Err(Refusal::ReplayStoreUnavailable),
    }
}

/// How entries are written, the same for all flights.
#[derive(Debug)]
pub(crate) struct EntryRules {
    pub(crate) partitions: Partitions,
    pub(super) used: UsedSignatures,
}

/// Sends flights to one database.
#[derive(Clone, Debug)]
pub(crate) struct Flights {
    pub(crate) db: Database,
    /// Bounds the time that a flight takes.
    pub(crate) within: Duration,
    pub(crate) entries: Arc<EntryRules>,
    /// Of the database, as far as entries tell.
    pub(crate) outage: Arc<Outage>,
}

/// What the database had of an entry, or why that can't be told.
type Remembered = Result<Stored, Arc<TxError>>;

impl Work<Passenger> for Flights {
    async fn run(&self, mut group: Vec<Passenger>) {
        // Nobody is told of those, so they stay unused.
        group.retain(|passenger| !passenger.reply.is_closed());
        if group.is_empty() {
            return;
        }
        sort(&mut group, |passenger| passenger.entry.as_ref());
        let new = firsts(group.iter().filter_map(|passenger| passenger.entry.as_ref()));
        let wanted: Vec<&Wanted> = group.iter().filter_map(|passenger| passenger.wanted.as_ref()).collect();
        let (remembered, found) = self.fly(&new, &wanted).await;
        let verdicts = judge(group.iter().filter_map(|passenger| passenger.entry.as_ref()), &remembered);
        self.tell(group, verdicts, found);
    }
}

impl Flights {
    /// Sends a flight. Gives what became of each entry, and the rows of each query. A query that takes too long fails alone, and
    /// soon enough for the other requests of the flight to be answered in time.
    async fn fly(&self, new: &[&Entry], wanted: &[&Wanted]) -> (Vec<Remembered>, Vec<Rows>) {
        let begun = Instant::now();
        let (deadline, query_deadline) = (begun + self.within, begun + self.within.mul_f64(QUERY_TIME));
        let flown = store::ask_each(&self.db, deadline, async |client| {
            let remembered = timeout_at(deadline, replay_entries::remember(client, new));
            let (remembered, found) = join(remembered, records::find(client, wanted, query_deadline)).await;
            let remembered =
                remembered.map_or_else(|_| Err(store::late()), |done| done.map_err(TxError::from));
            let is_late = Instant::now() >= query_deadline;
            ((remembered, found), is_late)
        });
        match flown.await {
            Ok((Ok(stored), found)) => (stored.into_iter().map(Ok).collect(), found),
            Ok((Err(error), found)) => (self.remember_again(new, error).await, found),
            Err(error) => {
                let error = Arc::new(error);
                (vec![Err(Arc::clone(&error)); new.len()], vec![Err(error); wanted.len()])
            }
        }
    }

    /// Makes the partition that is missing and writes the entries once more; where one of several is refused, each by
    /// itself. Only a statement that was certainly rolled back is repeated: otherwise it would take its own entries for
    /// replays.
    async fn remember_again(&self, new: &[&Entry], mut error: TxError) -> Vec<Remembered> {
        if replay_entries::is_partition_missing(&error) {
            match self.make_partition_and_remember(new).await {
                Ok(stored) => return stored.into_iter().map(Ok).collect(),
                Err(other) => error = other,
            }
        }
        if new.len() > 1 && replay_entries::is_refused_for_its_values(&error) {
            return self.remember_each(new).await;
        }
        vec![Err(Arc::new(error)); new.len()]
    }

    async fn make_partition_and_remember(&self, new: &[&Entry]) -> Result<Vec<Stored>, TxError> {
        self.entries.partitions.keep(common::clock::now()).await?;
        let deadline = Instant::now() + self.within;
        store::ask(&self.db, deadline, async |client| replay_entries::remember(client, new).await).await
    }

    /// Writes each entry with a statement of its own, all sent at once.
    async fn remember_each(&self, new: &[&Entry]) -> Vec<Remembered> {
        let deadline = Instant::now() + self.within;
        let each = store::ask(&self.db, deadline, async |client| {
            Ok(replay_entries::remember_each(client, new).await)
        });
        match each.await {
            Ok(each) => each.into_iter().map(|one| one.map_err(|error| Arc::new(error.into()))).collect(),
            Err(error) => vec![Err(Arc::new(error)); new.len()],
        }
    }

    fn tell(&self, group: Vec<Passenger>, verdicts: Vec<Result<Admission, Arc<TxError>>>, found: Vec<Rows>) {
        let has_worked = verdicts.iter().any(Result::is_ok);
        let (mut verdicts, mut found) = (verdicts.into_iter(), found.into_iter());
        for Passenger { entry, wanted, span, reply } in group {
            let rows = wanted.and_then(|_| found.next());
            let admission = match entry.as_ref().and_then(|_| verdicts.next()) {
                Some(Err(error)) => {
                    span.in_scope(|| self.outage.failed(&error));
                    continue;
                }
                Some(Ok(admission)) => Some(admission),
                None => None,
            };
            if let (Some(entry), Some(Admission::Replayed)) = (&entry, admission)
                && entry.idempotency_key.is_none()
            {
                self.entries.used.insert(entry);
            }
            // It may have given up meanwhile.
            let _ = reply.send(Reply { admission, rows });
        }
        if has_worked {
            self.outage.worked();
        }
    }
}
