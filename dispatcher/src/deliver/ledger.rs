//! Putting on record how messages ended, many at once.
//!
//! The order makes each end safe against a crash at any point: first the message of the next attempt is published, then
//! the record is committed, then the message is concluded. What is repeated after a crash is recognised by the record.

use super::dead_letters::DeadLetters;
use super::job::{context, span};
use super::open::OpenAttempts;
use crate::schedule::Wait;
use crate::store::{self, AttemptRow, Conclusion, State};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use common::broker::{Broker, Outgoing, Publisher, Receipt};
use common::clock;
use common::db::{Database, TxError, Work};
use common::message::DeliveryMeta;
use deadpool_postgres::Transaction;
use futures_util::{future::join_all, try_join};
use std::time::Duration;
use tokio::sync::mpsc;
use tracing::{Instrument, Span};
use uuid::Uuid;

/// Most ends of one transaction.
const TOGETHER: usize = 512;
/// Longest that the broker may take to confirm the messages of next attempts.
const CONFIRM_WITHIN: Duration = Duration::from_secs(5);
/// Wait between tries while the database can't be reached.
const OUTAGE_WAIT: Duration = Duration::from_millis(250);

/// How a message ended.
#[derive(Debug)]
pub(super) struct Entry {
    /// What it was.
    pub meta: DeliveryMeta,
    /// What has become of the delivery.
    pub conclusion: Conclusion,
    /// The attempt, if one was made.
    pub attempt: Option<AttemptRow>,
    /// What becomes of the message.
    pub fate: Fate,
    /// Concludes it.
    pub receipt: Receipt,
    /// Whether its attempt was opened, so that further messages of it wait for this.
    pub opened: Opened,
}

/// Whether a message's attempt was opened (see [`OpenAttempts`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    Yes,
    No,
}

impl Entry {
    /// Its delivery waits in the database, for `wait` at least.
    pub(super) fn parked(meta: DeliveryMeta, receipt: Receipt, wait: Duration, opened: Opened) -> Self {
        let now = clock::now();
        let conclusion = Conclusion {
            next_attempt_at: Some(now),
            parked_at: Some(now),
            parked_until: (!wait.is_zero()).then(|| now + wait),
            ..Conclusion::unchanged(&meta)
        };
        Self { meta, conclusion, attempt: None, fate: Fate::Done, receipt, opened }
    }

    /// Its delivery has no receiver any more.
    pub(super) fn dropped(meta: DeliveryMeta, receipt: Receipt) -> Self {
        let conclusion = Conclusion { state: State::Dropped, ..Conclusion::unchanged(&meta) };
        Self { meta, conclusion, attempt: None, fate: Fate::Done, receipt, opened: Opened::No }
    }

    fn span(&self) -> Span {
        span(&self.meta, context(&self.meta))
    }

    /// In one order everywhere, so that transactions never wait for each other in a ring; of several entries of one
    /// delivery the one that counts comes last.
    fn order(&self) -> (Uuid, Uuid, bool, i16, bool) {
        let Conclusion { tenant_id, delivery_id, state, attempts, .. } = self.conclusion;
        (tenant_id, delivery_id, state == State::Delivered, attempts, self.attempt.is_some())
    }
}

/// What becomes of a message.
#[derive(Debug)]
pub(super) enum Fate {
    /// It is done with.
    Done,
    /// Another attempt follows.
    Retry {
        /// When.
        wait: Wait,
        /// The envelope.
        body: Bytes,
    },
    /// It goes to the dead-letter queue.
    Dead,
}

/// What the ledger writes with.
#[derive(Debug)]
pub(super) struct Ledger {
    pub database: Database,
    pub broker: Broker,
    pub open: OpenAttempts,
    pub dead_letters: DeadLetters,
}

impl Ledger {
    /// Writes entries as they come, until their channel closes.
    pub(super) async fn keep(self, mut entries: mpsc::Receiver<Entry>) {
        let names: Vec<String> = (0..=u8::MAX).map(|level| self.broker.retry_queue_name(level)).collect();
        let mut publisher = Publisher::new(self.broker.clone(), "webhooks.retry");
        let mut batch = Vec::with_capacity(TOGETHER);
        while entries.recv_many(&mut batch, TOGETHER).await > 0 {
            let now = clock::now();
            retry(&mut publisher, &names, &mut batch, now).await;
            batch.sort_unstable_by_key(Entry::order);
            let refused = self.record(&batch, now).await;
            let concluded =
                batch.drain(..).enumerate().map(|(at, entry)| self.conclude(entry, refused.contains(&at)));
            join_all(concluded).await;
        }
    }

    /// Commits the batch, however long the database is away: until then its messages stay open. When it refuses the
    /// batch, entry by entry; gives the places of what it refuses even so.
    async fn record(&self, batch: &[Entry], now: DateTime<Utc>) -> Vec<usize> {
        // Lines about a delivery name it, those about many only say how many.
        let together = if let [entry] = batch { entry.span() } else { Span::none() };
        if self.record_together(batch, now).instrument(together).await.is_ok() {
            return Vec::new();
        }
        let mut refused = Vec::new();
        for (at, entry) in batch.iter().enumerate() {
            let span = entry.span();
            let recorded = self.record_together(std::slice::from_ref(entry), now).instrument(span.clone());
            if let Err(error) = recorded.await {
                span.in_scope(|| tracing::error!(%error, "a delivery can't be put on record"));
                refused.push(at);
            }
        }
        refused
    }

    async fn record_together(&self, batch: &[Entry], now: DateTime<Utc>) -> Result<(), TxError> {
        let work = Record { batch, now };
        loop {
            match self.database.run_tx("conclude", &work).await {
                Ok(()) => return Ok(()),
                Err(error @ (TxError::Unavailable(_) | TxError::Conflict(_) | TxError::Stale(_))) => {
                    tracing::warn!(%error, deliveries = batch.len(), "can't put deliveries on record, trying again");
                    tokio::time::sleep(OUTAGE_WAIT).await;
                }
                Err(error @ (TxError::Refused(_) | TxError::Abandoned(_))) => return Err(error),
            }
        }
    }

    /// Concludes the entry's message, and forgets the second messages of its attempt.
    async fn conclude(&self, entry: Entry, is_refused: bool) {
        let second = match entry.opened {
            Opened::Yes => self.open.end(&entry.meta),
            Opened::No => Vec::new(),
        };
        match entry.fate {
            _ if is_refused => self.dead_letters.take(entry.receipt, "record").await,
            Fate::Done | Fate::Retry { .. } => entry.receipt.done().await,
            Fate::Dead => self.dead_letters.take(entry.receipt, "attempts").await,
        }
        for receipt in second {
            receipt.done().await;
        }
    }
}

/// Publishes the messages of next attempts. Where the broker doesn't confirm, the delivery waits in the database instead;
/// should the message be in its queue all the same, one of the two is the second message of the attempt.
async fn retry(publisher: &mut Publisher, names: &[String], batch: &mut [Entry], now: DateTime<Utc>) {
    let due: Vec<(usize, Outgoing<'_>)> = batch
        .iter()
        .enumerate()
        .filter_map(|(at, entry)| match &entry.fate {
            Fate::Retry { wait, body } => {
                Some((at, next(entry, &names[usize::from(wait.level)], *wait, body, now)))
            }
            Fate::Done | Fate::Dead => None,
        })
        .collect();
    if due.is_empty() {
        return;
    }
    let (places, messages): (Vec<usize>, Vec<Outgoing<'_>>) = due.into_iter().unzip();
    let published = publisher.publish(&messages, CONFIRM_WITHIN).await;
    drop(messages);
    for (place, result) in places.into_iter().zip(published) {
        if result.is_err() {
            batch[place].conclusion.parked_at = Some(now);
        }
    }
}

fn next<'a>(entry: &Entry, queue: &'a str, wait: Wait, body: &'a Bytes, now: DateTime<Utc>) -> Outgoing<'a> {
    let meta = DeliveryMeta {
        attempt: entry.meta.attempt.saturating_add(1),
        published_at: now,
        ..entry.meta.clone()
    };
    Outgoing { queue, meta: meta.to_header(), traceparent: meta.traceparent, body, waits: Some(wait.length) }
}

struct Record<'a> {
    batch: &'a [Entry],
    now: DateTime<Utc>,
}

impl Work for Record<'_> {
    type Output = ();

    async fn run(&self, tx: &Transaction<'_>) -> Result<(), TxError> {
        let mut ends: Vec<&Conclusion> = Vec::with_capacity(self.batch.len());
        for entry in self.batch {
            // One statement can't touch a row twice.
            match ends.last_mut() {
                Some(last) if last.delivery_id == entry.conclusion.delivery_id => *last = &entry.conclusion,
                Some(_) | None => ends.push(&entry.conclusion),
            }
        }
        let attempts: Vec<AttemptRow> = self.batch.iter().filter_map(|entry| entry.attempt.clone()).collect();
        try_join!(store::conclude(tx, &ends, self.now), store::insert_attempts(tx, &attempts))?;
        Ok(())
    }
}
