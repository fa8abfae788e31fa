//! Putting on record what has become of deliveries, many at once.
//!
//! The order makes each end safe against a crash at any point: first the message of the next attempt is published, then
//! the record is committed, then the message is acknowledged. What is repeated after a crash is recognized by the record.
//! The event of a delivery that came straight from the outbox is marked as relayed in the transaction that records the last
//! of its deliveries: until then a crash has them sent again.

use super::dead_letters::DeadLetters;
use super::entry::{Entry, FollowUp, Opened};
use super::in_flight::{EventInFlight, InFlight};
use super::job::{context, span};
use super::messages::Messages;
use super::open::OpenAttempts;
use super::origin::Origin;
use crate::store::{AttemptRow, Conclusion, Record};
use chrono::{DateTime, Utc};
use common::broker::Broker;
use common::clock;
use common::db::{ConflictRetries, Database, TxError};
use common::limited;
use common::log_limit::LogLimit;
use futures_util::FutureExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{Instrument, Span};
use uuid::Uuid;

/// What is logged: deliveries that can't be put on record, those that have no dead letter, events that can't be marked as
/// relayed, and tries to put deliveries on record that failed.
static UNRECORDED: LogLimit<4> = LogLimit::new();

/// Most entries of one transaction.
const TOGETHER: usize = 512;
/// The least time between the begins of two transactions. The first entry after a pause is written at once; what ends
/// meanwhile is written together. Nobody waits for it: the receiver has its webhook.
const GAP: Duration = Duration::from_millis(4);
/// Wait between tries while the database can't be reached.
const OUTAGE_WAIT: Duration = Duration::from_millis(250);

/// What goes on record.
#[derive(Debug)]
pub(super) enum Note {
    /// A delivery.
    Delivery(Box<Entry>),
    /// An event that has no delivery.
    Event(Arc<EventInFlight>),
}

/// What the ledger writes with.
#[derive(Debug)]
pub(super) struct Ledger {
    pub database: Database,
    pub broker: Broker,
    pub open: OpenAttempts,
    pub in_flight: InFlight,
    pub dead_letters: DeadLetters,
}

/// What is written together.
#[derive(Debug, Default)]
struct Batch {
    entries: Vec<Entry>,
    /// Events whose deliveries are all on record with these entries, or were before.
    relayed: Vec<Uuid>,
}

impl Ledger {
    /// Writes notes as they come, until their channel closes.
    pub(super) async fn keep(self, mut notes: mpsc::Receiver<Note>) {
        let mut messages = Messages::new(&self.broker);
        let mut received = Vec::with_capacity(TOGETHER);
        let mut batch = Batch::default();
        loop {
            let receiving = notes.recv_many(&mut received, TOGETHER);
            let count = match batch.relayed.is_empty() {
                true => Some(receiving.await),
                // An event is complete already: it waits for nobody.
                false => receiving.now_or_never(),
            };
            if count == Some(0) && batch.relayed.is_empty() {
                return;
            }
            let next = Instant::now() + GAP;
            batch.take(received.drain(..));
            messages.publish(&mut batch.entries).await;
            self.write(&mut batch, &mut messages).await;
            sleep_until(next).await;
        }
    }

    /// Commits the batch and settles its entries. Leaves events in the batch that became complete by that.
    async fn write(&self, batch: &mut Batch, messages: &mut Messages) {
        let now = clock::now();
        let Batch { mut entries, mut relayed } = std::mem::take(batch);
        let repeats = self.close_unattempted(&mut entries);
        entries.sort_unstable_by_key(Entry::order);
        relayed.sort_unstable();
        // Lines about a delivery name it, those about many only say how many.
        let together = if let [entry] = &entries[..] { entry.span() } else { Span::none() };
        if self.record_together(&entries, &relayed, now).instrument(together).await.is_err() {
            entries = self.record_one_by_one(entries, &mut relayed, now, messages).await;
        }
        self.in_flight.remove(&relayed);
        batch.relayed.extend(settle_all(repeats).await);
        for entry in entries {
            batch.relayed.extend(self.settle_repeats(&entry).await);
            self.settle(entry, messages).await;
        }
    }

    /// Closes the attempts that were opened and are not made: their deliveries are parked. That comes before the commit:
    /// as soon as a parked delivery is on record the relay may publish a message for it, which must not be taken for a
    /// repeat. Gives the origins of the repeats until now.
    fn close_unattempted(&self, entries: &mut [Entry]) -> Vec<Origin> {
        let mut repeats = Vec::new();
        for entry in entries {
            if entry.opened == Opened::Yes && entry.attempt.is_none() {
                repeats.extend(self.open.end(&entry.meta));
                entry.opened = Opened::No;
            }
        }
        repeats
    }

    /// Commits what the database takes of a batch that it has refused. Gives the entries that are on record. The others
    /// are left to the queue, where a message that can't be put on record becomes a dead letter; so their events count as
    /// relayed, too. What the broker doesn't take either stays in the outbox until the program starts again.
    async fn record_one_by_one(
        &self,
        entries: Vec<Entry>,
        relayed: &mut Vec<Uuid>,
        now: DateTime<Utc>,
        messages: &mut Messages,
    ) -> Vec<Entry> {
        let mut recorded = Vec::with_capacity(entries.len());
        for entry in entries {
            let span = entry.span();
            let alone = std::slice::from_ref(&entry);
            let Err(error) = self.record_together(alone, &[], now).instrument(span.clone()).await else {
                recorded.push(entry);
                continue;
            };
            span.in_scope(|| limited!(UNRECORDED[0], error, %error, "a delivery can't be put on record"));
            relayed.extend(self.settle_repeats(&entry).await);
            match entry.origin {
                Origin::Queue(receipt) => self.dead_letters.take(receipt, "record").await,
                Origin::Outbox(part) => {
                    if !messages.requeue(&entry.meta, &entry.body).await {
                        relayed.retain(|event| *event != part.event.event_id);
                    }
                }
            }
        }
        if let Err(error) = self.record_together(&[], relayed, now).await {
            let events = relayed.len();
            limited!(UNRECORDED[2], error, %error, events, "events can't be marked as relayed");
            relayed.clear();
        }
        recorded
    }

    async fn record_together(
        &self,
        entries: &[Entry],
        relayed: &[Uuid],
        now: DateTime<Utc>,
    ) -> Result<(), TxError> {
        let conclusions = last_of_each(entries);
        let attempts: Vec<AttemptRow> = entries.iter().filter_map(|entry| entry.attempt.clone()).collect();
        let record = Record { conclusions: &conclusions, attempts: &attempts, relayed, now };
        if conclusions.is_empty() && relayed.is_empty() {
            return Ok(());
        }
        let mut retries = ConflictRetries::new();
        loop {
            let error = match record.write(&self.database).await {
                Ok(()) => return Ok(()),
                Err(error @ (TxError::Refused(_) | TxError::Abandoned(_))) => return Err(error),
                Err(error) => error,
            };
            if matches!(error, TxError::Conflict(_)) && retries.begin_next().await {
                continue;
            }
            // More conflicts than that are as good as an outage.
            let deliveries = entries.len();
            limited!(UNRECORDED[3], warn, %error, deliveries, "can't put deliveries on record, trying again");
            sleep(OUTAGE_WAIT).await;
        }
    }

    /// Tells the entry's origin that it is on record.
    async fn settle(&self, entry: Entry, messages: &mut Messages) {
        let is_dead = matches!(entry.follow_up, FollowUp::DeadLetter);
        match entry.origin {
            Origin::Queue(receipt) if is_dead => self.dead_letters.take(receipt, "attempts").await,
            Origin::Queue(receipt) => receipt.done().await,
            // It has no message that could be dead-lettered: whoever takes this one finds the delivery dead.
            Origin::Outbox(_) if is_dead => {
                if !messages.requeue(&entry.meta, &entry.body).await {
                    span(&entry.meta, context(&entry.meta)).in_scope(|| {
                        limited!(
                            UNRECORDED[1],
                            warn,
                            "the broker is unavailable; the dead delivery has no dead letter there"
                        );
                    });
                }
            }
            Origin::Outbox(_) => {}
        }
    }

    /// The attempt is over: tells the origins of its repeats. Gives the events that these were the last deliveries of.
    async fn settle_repeats(&self, entry: &Entry) -> Vec<Uuid> {
        match entry.opened {
            Opened::Yes => settle_all(self.open.end(&entry.meta)).await,
            Opened::No => Vec::new(),
        }
    }
}

/// Tells the origins of repeats that their attempt is on record. Gives the events that these were the last deliveries of.
async fn settle_all(repeats: Vec<Origin>) -> Vec<Uuid> {
    let mut complete = Vec::new();
    for repeat in repeats {
        match repeat {
            Origin::Queue(receipt) => receipt.done().await,
            Origin::Outbox(part) if part.event.record_one() => complete.push(part.event.event_id),
            Origin::Outbox(_) => {}
        }
    }
    complete
}

impl Batch {
    fn take(&mut self, notes: impl Iterator<Item = Note>) {
        for note in notes {
            match note {
                Note::Event(event) => self.relayed.push(event.event_id),
                Note::Delivery(entry) => {
                    if let Origin::Outbox(part) = &entry.origin
                        && part.event.record_one()
                    {
                        self.relayed.push(part.event.event_id);
                    }
                    self.entries.push(*entry);
                }
            }
        }
    }
}

/// One statement can't touch a row twice: of several entries of a delivery, which are neighbors, the last one.
fn last_of_each(entries: &[Entry]) -> Vec<&Conclusion> {
    let mut last: Vec<&Conclusion> = Vec::with_capacity(entries.len());
    for Entry { conclusion, .. } in entries {
        match last.last_mut() {
            Some(before) if before.delivery_id == conclusion.delivery_id => *before = conclusion,
            Some(_) | None => last.push(conclusion),
        }
    }
    last
}
