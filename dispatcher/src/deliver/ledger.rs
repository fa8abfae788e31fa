//! Putting on record how messages ended, many at once.
//!
//! The order makes each end safe against a crash at any point: first the message of the next attempt is published, then
//! the record is committed, then the message is concluded. What is repeated after a crash is recognised by the record.

use super::open::OpenAttempts;
use crate::schedule::Wait;
use crate::store::{self, AttemptRow, Conclusion};
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

/// Writes entries as they come, until their channel closes.
pub(super) async fn keep(
    broker: Broker,
    database: Database,
    open: OpenAttempts,
    mut entries: mpsc::Receiver<Entry>,
) {
    let names: Vec<String> = (0..=u8::MAX).map(|level| broker.retry_queue_name(level)).collect();
    let mut publisher = Publisher::new(broker, "webhooks.retry");
    let mut batch = Vec::with_capacity(TOGETHER);
    while entries.recv_many(&mut batch, TOGETHER).await > 0 {
        let now = clock::now();
        retry(&mut publisher, &names, &mut batch, now).await;
        // In one order everywhere, so that transactions never wait for each other in a ring.
        batch.sort_unstable_by_key(|entry| (entry.conclusion.tenant_id, entry.conclusion.delivery_id));
        record(&database, &batch, now).await;
        let concluded = batch.drain(..).map(|entry| {
            let second = open.end(&entry.meta);
            conclude(entry, second)
        });
        join_all(concluded).await;
    }
}

/// Concludes the entry's message, and forgets the second messages of its attempt.
async fn conclude(entry: Entry, second: Vec<Receipt>) {
    match entry.fate {
        Fate::Done | Fate::Retry { .. } => entry.receipt.done().await,
        Fate::Dead => entry.receipt.dead("attempts").await,
    }
    for receipt in second {
        receipt.done().await;
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

/// Commits the batch, however long the database is away: until then its messages stay open.
async fn record(database: &Database, batch: &[Entry], now: DateTime<Utc>) {
    let work = Record { batch, now };
    while let Err(error) = database.run_tx("conclude", &work).await {
        tracing::warn!(%error, deliveries = batch.len(), "can't put deliveries on record, trying again");
        tokio::time::sleep(OUTAGE_WAIT).await;
    }
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
            // Two messages of one delivery: one statement can't touch a row twice; what was delivered counts, else the later.
            match ends.last_mut() {
                Some(last) if last.delivery_id == entry.conclusion.delivery_id => {
                    if last.state != store::State::Delivered {
                        *last = &entry.conclusion;
                    }
                }
                Some(_) | None => ends.push(&entry.conclusion),
            }
        }
        let attempts: Vec<AttemptRow> = self.batch.iter().filter_map(|entry| entry.attempt.clone()).collect();
        try_join!(store::conclude(tx, &ends, self.now), store::insert_attempts(tx, &attempts))?;
        Ok(())
    }
}
