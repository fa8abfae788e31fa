//! Records the outcomes of deliveries in batches.
//!
//! The order is safe against a crash at any point: first the message of the next attempt is published, then the record is
//! committed, then the message is acknowledged. The record identifies work that is repeated after a crash.
//! The event of a delivery that came directly from the outbox is marked as relayed in the transaction that records the last
//! of its deliveries: after a crash before that they are sent again.

use super::attempt_job::{context, span};
use super::dead_letter_queue::DeadLetterQueue;
use super::delivery_publisher::DeliveryPublisher;
use super::delivery_update::{DeliveryUpdate, FollowUp, Tracked, last_of_each};
use super::in_flight::{EventInFlight, InFlight};
use super::source::DeliverySource;
use super::unrecorded_attempts::UnrecordedAttempts;
use crate::store::{AttemptRow, RecordTransaction};
use chrono::{DateTime, Utc};
use common::activity;
use common::broker::Broker;
use common::clock;
use common::db::{Database, TxError};
use common::limited;
use common::log_limit::LogLimit;
use common::model::TenantId;
use common::outage::Outage;
use common::retry::RetryWaits;
use futures_util::FutureExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};
use uuid::Uuid;

/// Limits the log lines, by reason: deliveries that cannot be recorded, missing dead letters, events that cannot be marked as
/// relayed, and failed transactions.
static UNRECORDED: LogLimit<3> = LogLimit::new();

/// Maximum number of updates of one transaction.
const BATCH_MAX: usize = 512;
/// Shortest time between the starts of two transactions. The first item after a pause is written at once, later ones are
/// batched. The delay affects no receiver, because the webhook was sent.
const BATCH_INTERVAL: Duration = Duration::from_millis(4);
/// Waits between retries while the database is unavailable.
pub(super) static OUTAGE: Outage = Outage::new("record deliveries", "recording deliveries failed; retrying");
const OUTAGE_WAITS: RetryWaits = RetryWaits::every(Duration::from_millis(250));

/// An item to be recorded.
#[derive(Debug)]
pub(super) enum RecorderItem {
    /// The outcome of a delivery.
    Delivery(Box<DeliveryUpdate>),
    /// An event without deliveries, to be marked as relayed.
    Event(Arc<EventInFlight>),
}

/// Records deliveries, and acknowledges or dead-letters their messages.
#[derive(Debug)]
pub(super) struct DeliveryRecorder {
    pub database: Database,
    pub broker: Broker,
    pub unrecorded: UnrecordedAttempts,
    pub in_flight: InFlight,
    pub dead_letter_queue: DeadLetterQueue,
}

/// What one transaction writes.
#[derive(Debug, Default)]
struct RecorderBatch {
    updates: Vec<DeliveryUpdate>,
    /// Events whose deliveries are all recorded by these updates or before.
    relayed: Vec<Uuid>,
}

impl DeliveryRecorder {
    /// Writes items in batches until their channel closes.
    pub(super) async fn run(self, mut items: mpsc::Receiver<RecorderItem>) {
        let mut publisher = DeliveryPublisher::new(&self.broker);
        let mut received = Vec::with_capacity(BATCH_MAX);
        let mut batch = RecorderBatch::default();
        loop {
            let receiving = items.recv_many(&mut received, BATCH_MAX);
            // `None`: no item is waiting. `Some(0)`: the channel is closed.
            let count = match batch.relayed.is_empty() {
                true => Some(receiving.await),
                // A complete event is marked without waiting for further items.
                false => receiving.now_or_never(),
            };
            if count == Some(0) && batch.relayed.is_empty() {
                return;
            }
            let next = Instant::now() + BATCH_INTERVAL;
            batch.take(received.drain(..));
            publisher.publish(&mut batch.updates).await;
            self.write(&mut batch, &mut publisher).await;
            sleep_until(next).await;
        }
    }

    /// Commits the batch and empties it, and acknowledges or dead-letters the messages of its updates. Finishing the duplicates of
    /// an update may complete further events: these are put into `batch`, and the next transaction marks them as relayed.
    async fn write(&self, batch: &mut RecorderBatch, publisher: &mut DeliveryPublisher) {
        let now = clock::now();
        let RecorderBatch { mut updates, mut relayed } = std::mem::take(batch);
        let duplicates = self.end_unattempted(&mut updates);
        updates.sort_unstable_by_key(DeliveryUpdate::order);
        relayed.sort_unstable();
        // Log lines about a single delivery name it; lines about several contain their number only.
        let together = if let [update] = &updates[..] { update.span() } else { Span::none() };
        if self.record_together(&updates, &relayed, now).instrument(together).await.is_err() {
            updates = self.record_one_by_one(updates, &mut relayed, now, publisher).await;
        }
        self.in_flight.remove(&relayed);
        batch.relayed.extend(finish_all(duplicates).await);
        for update in updates {
            batch.relayed.extend(self.finish_duplicates(&update).await);
            self.finish_source(update, publisher).await;
        }
    }

    /// Stops tracking attempts that were not made, because their deliveries are parked. This happens before the commit: once a
    /// parked delivery is recorded the relay may publish a message for it, which must not be taken for a duplicate. Returns
    /// the sources of the duplicates so far.
    fn end_unattempted(&self, updates: &mut [DeliveryUpdate]) -> Vec<DeliverySource> {
        let mut duplicates = Vec::new();
        for update in updates {
            if update.tracked == Tracked::Yes && update.attempt.is_none() {
                duplicates.extend(self.unrecorded.end(&update.meta));
                update.tracked = Tracked::No;
            }
        }
        duplicates
    }

    /// Commits the updates of a refused batch one by one, and returns those that were recorded. The others are dead-lettered or
    /// published to the queue, so their events count as relayed as well. If the message of a delivery cannot be published
    /// either, its event stays in the outbox until the program restarts.
    async fn record_one_by_one(
        &self,
        updates: Vec<DeliveryUpdate>,
        relayed: &mut Vec<Uuid>,
        now: DateTime<Utc>,
        publisher: &mut DeliveryPublisher,
    ) -> Vec<DeliveryUpdate> {
        let mut recorded = Vec::with_capacity(updates.len());
        for update in updates {
            let span = update.span();
            let alone = std::slice::from_ref(&update);
            let Err(error) = self.record_together(alone, &[], now).instrument(span.clone()).await else {
                recorded.push(update);
                continue;
            };
            span.in_scope(|| limited!(UNRECORDED[0], error, %error, "recording a delivery failed; dead-lettering its message, or publishing one if it has none"));
            relayed.extend(self.finish_duplicates(&update).await);
            match update.source {
                DeliverySource::Queue(ack) => self.dead_letter_queue.dead_letter(ack, "record").await,
                DeliverySource::Outbox(delivery) => {
                    if !publisher.publish_message(&update.meta, &update.body).await {
                        relayed.retain(|event| *event != delivery.event.event_id);
                    }
                }
            }
        }
        if let Err(error) = self.record_together(&[], relayed, now).await {
            let events = relayed.len();
            limited!(UNRECORDED[2], error, %error, events, "marking events as relayed failed; they stay in the outbox until a restart");
            relayed.clear();
        }
        recorded
    }

    async fn record_together(
        &self,
        updates: &[DeliveryUpdate],
        relayed: &[Uuid],
        now: DateTime<Utc>,
    ) -> Result<(), TxError> {
        let delivery_rows = last_of_each(updates);
        let attempts: Vec<AttemptRow> = updates.iter().filter_map(|update| update.attempt.clone()).collect();
        let record = RecordTransaction { delivery_rows: &delivery_rows, attempts: &attempts, relayed, now };
        if delivery_rows.is_empty() && relayed.is_empty() {
            return Ok(());
        }
        // When all retries after conflicts are used up, the error is handled like an outage.
        let is_outage =
            |error: &TxError| !matches!(error, TxError::StatementFailed(_) | TxError::Abandoned(_));
        // It is waited for during a drain, too.
        let never = CancellationToken::new();
        let written = OUTAGE.wait_out(OUTAGE_WAITS, &never, is_outage, || record.write(&self.database));
        written.await.unwrap_or(Ok(()))?;
        for AttemptRow { tenant_id, status, .. } in &attempts {
            let is_delivered = status.is_some_and(|status| (200..300).contains(&status));
            activity::count_attempt(TenantId(*tenant_id), is_delivered);
        }
        Ok(())
    }

    /// Acknowledges or dead-letters the message of a recorded update.
    async fn finish_source(&self, update: DeliveryUpdate, publisher: &mut DeliveryPublisher) {
        let is_dead_lettered = matches!(update.follow_up, FollowUp::DeadLetter);
        match update.source {
            DeliverySource::Queue(ack) if is_dead_lettered => {
                self.dead_letter_queue.dead_letter(ack, "attempts").await;
            }
            DeliverySource::Queue(ack) => ack.acknowledge().await,
            // It has no message, so one is published; its consumer finds the state `dead` and dead-letters the message.
            DeliverySource::Outbox(_) if is_dead_lettered => {
                if !publisher.publish_message(&update.meta, &update.body).await {
                    span(&update.meta, context(&update.meta)).in_scope(|| {
                        limited!(
                            UNRECORDED[1],
                            warn,
                            "publishing a dead-lettered delivery failed; its message is missing from the dead-letter queue"
                        );
                    });
                }
            }
            DeliverySource::Outbox(_) => {}
        }
    }

    /// Acknowledges the duplicates of a recorded attempt. Returns the events whose last delivery is one of them.
    async fn finish_duplicates(&self, update: &DeliveryUpdate) -> Vec<Uuid> {
        match update.tracked {
            Tracked::Yes => finish_all(self.unrecorded.end(&update.meta)).await,
            Tracked::No => Vec::new(),
        }
    }
}

/// Acknowledges duplicates whose attempt is recorded. Returns the events whose last delivery is one of them.
async fn finish_all(duplicates: Vec<DeliverySource>) -> Vec<Uuid> {
    let mut complete = Vec::new();
    for duplicate in duplicates {
        match duplicate {
            DeliverySource::Queue(ack) => ack.acknowledge().await,
            DeliverySource::Outbox(delivery) if delivery.event.count_down() => {
                complete.push(delivery.event.event_id);
            }
            DeliverySource::Outbox(_) => {}
        }
    }
    complete
}

impl RecorderBatch {
    fn take(&mut self, items: impl Iterator<Item = RecorderItem>) {
        for item in items {
            match item {
                RecorderItem::Event(event) => self.relayed.push(event.event_id),
                RecorderItem::Delivery(update) => {
                    if let DeliverySource::Outbox(delivery) = &update.source
                        && delivery.event.count_down()
                    {
                        self.relayed.push(delivery.event.event_id);
                    }
                    self.updates.push(*update);
                }
            }
        }
    }
}
