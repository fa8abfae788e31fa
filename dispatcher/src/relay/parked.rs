//! Publishes parked deliveries to the queue when they are due.

use super::{RETRY_WAITS, Relay, RelayError};
use crate::store::{self, LaneFilter, ParkedDelivery};
use chrono::{DateTime, Utc};
use common::broker::{OutgoingMessage, Publisher, Queue};
use common::clock;
use common::db::{TransactionBody, TxError};
use common::message::DeliveryMeta;
use common::model::TenantId;
use common::retry::RetryWaits;
use deadpool_postgres::Transaction;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Maximum number of deliveries of one step: of a subscription, and in total.
const STEP: (i64, i64) = (128, 1_024);
/// Maximum number of lost deliveries that are parked in one step.
const LOST_MAX: i64 = 1_000;
/// How often due parked deliveries are read.
const PARKED_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How often the database is searched for deliveries that the queue has lost.
const LOST_POLL_INTERVAL: Duration = Duration::from_secs(15);
/// Maximum time that the broker may take to confirm a batch of messages.
const CONFIRM_WITHIN: Duration = Duration::from_secs(5);

/// Publishes parked deliveries while this copy is the leader.
#[derive(Debug)]
pub(super) struct ParkedRelay {
    relay: Relay,
    publisher: Publisher,
    queue: String,
    /// The last subscription of the step before, after which the next step begins, so that all are served in round-robin order.
    last_subscription: Uuid,
    /// Whether this copy has published all parked deliveries that it found when it became the leader. Until then
    /// `parked_until` is ignored: only the previous leader, which may have ended, knows whether a lane is still full.
    is_caught_up: bool,
    lost_due: Instant,
    waits: RetryWaits,
}

impl ParkedRelay {
    pub(super) fn new(relay: Relay) -> Self {
        Self {
            queue: relay.broker.queue_name(Queue::Webhooks),
            publisher: Publisher::new(relay.broker.clone(), Queue::Webhooks, "webhooks"),
            last_subscription: Uuid::nil(),
            is_caught_up: false,
            lost_due: Instant::now(),
            waits: RETRY_WAITS,
            relay,
        }
    }

    /// Publishes due parked deliveries, periodically and when `notification` is notified, until
    /// `leadership_ended`.
    pub(super) async fn run(
        &mut self,
        notification: &Notify,
        leadership_ended: &CancellationToken,
    ) -> Result<(), TxError> {
        self.is_caught_up = false;
        while !leadership_ended.is_cancelled() {
            let pause = match self.step().await {
                Ok(has_more) => {
                    self.waits.reset();
                    if has_more { Duration::ZERO } else { PARKED_POLL_INTERVAL }
                }
                Err(RelayError::Database(error)) => return Err(error),
                // This copy stays the leader: another one would not reach the broker either.
                Err(RelayError::Broker(error)) => {
                    let wait = self.waits.next_wait();
                    tracing::warn!(%error, ?wait, "publishing parked deliveries failed; retrying");
                    wait
                }
            };
            leadership_ended.run_until_cancelled(timeout(pause, notification.notified())).await;
        }
        Ok(())
    }

    /// Publishes due parked deliveries, and parks lost ones from time to time. Returns whether there may be more.
    async fn step(&mut self) -> Result<bool, RelayError> {
        let now = Instant::now();
        if now >= self.lost_due {
            self.lost_due = now + LOST_POLL_INTERVAL;
            self.rescue().await?;
        }
        self.unpark().await
    }

    /// Publishes due parked deliveries. Returns whether there may be more.
    async fn unpark(&mut self) -> Result<bool, RelayError> {
        let now = clock::now();
        let parked = self.due(now).await?;
        let metas: Vec<DeliveryMeta> = parked.iter().map(|parked| meta(parked, now)).collect();
        let messages: Vec<OutgoingMessage<'_>> = parked
            .iter()
            .zip(&metas)
            .map(|(parked, meta)| message(&self.queue, meta, &parked.envelope))
            .collect();
        let published = self.publisher.publish(&messages, CONFIRM_WITHIN).await;
        let mut queued: Vec<&ParkedDelivery> = parked
            .iter()
            .zip(&published)
            .filter(|(_, result)| result.is_ok())
            .map(|(parked, _)| parked)
            .collect();
        if !queued.is_empty() {
            // The recorder's lock order, because both write the same rows.
            queued.sort_unstable_by_key(|parked| (parked.tenant_id, parked.delivery_id));
            self.relay.database.run_tx("unpark", &Unpark { queued: &queued }).await?;
        }
        published.into_iter().collect::<Result<(), _>>()?;
        self.is_caught_up |= parked.is_empty();
        Ok(!parked.is_empty())
    }

    /// Due parked deliveries; for recovered lanes, and for all lanes at first, also those that were parked for later because
    /// the lane was full. Serves the subscriptions in round-robin order.
    async fn due(&mut self, now: DateTime<Utc>) -> Result<Vec<ParkedDelivery>, RelayError> {
        let congestion = &self.relay.congestion;
        let (full, recovered) = (congestion.full(), congestion.recovered(Instant::now()));
        let all = !self.is_caught_up;
        let lanes = LaneFilter { full: &full, recovered: &recovered, all };
        let client = self.relay.database.client().await?;
        let mut parked = store::load_parked(&client, now, lanes, self.last_subscription, STEP).await?;
        if parked.is_empty() && !self.last_subscription.is_nil() {
            parked = store::load_parked(&client, now, lanes, Uuid::nil(), STEP).await?;
        }
        let is_full_step = i64::try_from(parked.len()).unwrap_or(i64::MAX) >= STEP.1;
        let last = parked.last().map(|parked| parked.subscription_id);
        self.last_subscription = last.filter(|_| is_full_step).unwrap_or_default();
        Ok(parked)
    }

    /// Parks pending deliveries that are long overdue while the queue is empty, because the queue has lost them.
    async fn rescue(&mut self) -> Result<(), RelayError> {
        let queue = self.relay.broker.depth(&self.queue).await;
        if queue.is_none_or(|queue| queue.ready > 0) {
            return Ok(());
        }
        let now = clock::now();
        let client = self.relay.database.client().await?;
        let rescued = store::rescue(&client, now, now - self.relay.rescue_after, LOST_MAX).await?;
        if rescued > 0 {
            tracing::warn!(
                rescued,
                "overdue deliveries are missing from the queue; parking them to be published again"
            );
        }
        Ok(())
    }
}

/// Marks deliveries as no longer parked.
struct Unpark<'a> {
    queued: &'a [&'a ParkedDelivery],
}

impl TransactionBody for Unpark<'_> {
    type Output = ();

    async fn run(&self, tx: &Transaction<'_>) -> Result<(), TxError> {
        store::unpark(tx, self.queued).await
    }
}

fn meta(parked: &ParkedDelivery, now: DateTime<Utc>) -> DeliveryMeta {
    DeliveryMeta {
        tenant_id: TenantId(parked.tenant_id),
        delivery_id: parked.delivery_id,
        subscription_id: parked.subscription_id,
        event_id: parked.event_id,
        event_type: parked.event_type.clone(),
        attempt: parked.attempts.saturating_add(1),
        published_at: now,
        traceparent: parked.traceparent.clone(),
        request_id: parked.request_id,
    }
}

/// A delivery's message for `queue`.
fn message<'a>(queue: &'a str, meta: &DeliveryMeta, envelope: &'a str) -> OutgoingMessage<'a> {
    let traceparent = meta.traceparent.clone();
    OutgoingMessage { queue, meta: meta.to_header(), traceparent, body: envelope.as_bytes(), ttl: None }
}
