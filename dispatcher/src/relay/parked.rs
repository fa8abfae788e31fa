//! Deliveries that wait in the database: back into the queue when it is their time.

use super::{Faults, Relay, RelayError};
use crate::store::{self, Lanes, Parked};
use chrono::{DateTime, Utc};
use common::broker::{Outgoing, Publisher, Queue};
use common::clock;
use common::db::{TxError, Work};
use common::message::DeliveryMeta;
use common::model::TenantId;
use deadpool_postgres::Transaction;
use std::collections::HashSet;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Deliveries of one step: of a subscription, and in all.
const STEP: (i64, i64) = (128, 1_024);
/// Lost deliveries found in one step.
const LOST: i64 = 1_000;
/// How often parked deliveries are looked for.
const LOOK_AT_PARKED: Duration = Duration::from_millis(500);
/// How often what the queue has lost is looked for.
const LOOK_FOR_LOST: Duration = Duration::from_secs(15);
/// Longest that the broker may take to confirm what is published together.
const CONFIRM_WITHIN: Duration = Duration::from_secs(5);

/// Puts parked deliveries into the queue while this copy is the leader.
#[derive(Debug)]
pub(super) struct ParkedRelay {
    relay: Relay,
    publisher: Publisher,
    queue: String,
    /// The subscription after which parked deliveries are looked for, so that each has its turn.
    parked_after: Uuid,
    lost_due: Instant,
    faults: Faults,
}

impl ParkedRelay {
    pub(super) fn new(relay: Relay) -> Self {
        Self {
            queue: relay.broker.queue_name(Queue::Webhooks),
            publisher: Publisher::new(relay.broker.clone(), Queue::Webhooks, "webhooks"),
            parked_after: Uuid::nil(),
            lost_due: Instant::now(),
            faults: Faults::default(),
            relay,
        }
    }

    /// Looks for parked deliveries, from time to time and when somebody `called`, until the leadership is `over`.
    pub(super) async fn run(&mut self, called: &Notify, over: &CancellationToken) -> Result<(), TxError> {
        while !over.is_cancelled() {
            let pause = match self.step().await {
                Ok(has_more) => {
                    self.faults = Faults::default();
                    if has_more { Duration::ZERO } else { LOOK_AT_PARKED }
                }
                Err(RelayError::Database(error)) => return Err(error),
                // It stays the leader: the broker is no nearer to another copy.
                Err(RelayError::Broker(error)) => {
                    let wait = self.faults.next_wait();
                    tracing::warn!(%error, ?wait, "parked deliveries not published, trying again");
                    wait
                }
            };
            over.run_until_cancelled(timeout(pause, called.notified())).await;
        }
        Ok(())
    }

    /// Puts parked deliveries into the queue, from time to time what it has lost as well; whether there may be more.
    async fn step(&mut self) -> Result<bool, RelayError> {
        let now = Instant::now();
        if now >= self.lost_due {
            self.lost_due = now + LOOK_FOR_LOST;
            self.rescue().await?;
        }
        self.unpark().await
    }

    /// Puts parked deliveries that are due into the queue; whether there may be more.
    async fn unpark(&mut self) -> Result<bool, RelayError> {
        let now = clock::now();
        let parked = self.due(now).await?;
        let metas: Vec<DeliveryMeta> = parked.iter().map(|parked| meta(parked, now)).collect();
        let messages: Vec<Outgoing<'_>> = parked
            .iter()
            .zip(&metas)
            .map(|(parked, meta)| message(&self.queue, meta, &parked.envelope))
            .collect();
        let published = self.publisher.publish(&messages, CONFIRM_WITHIN).await;
        let mut queued: Vec<&Parked> = parked
            .iter()
            .zip(&published)
            .filter(|(_, result)| result.is_ok())
            .map(|(parked, _)| parked)
            .collect();
        if !queued.is_empty() {
            // In the order in which the ledger takes its rows: these two meet.
            queued.sort_unstable_by_key(|parked| (parked.tenant_id, parked.delivery_id));
            self.relay.database.run_tx("unpark", &Unpark { queued: &queued }).await?;
        }
        published.into_iter().collect::<Result<(), _>>()?;
        Ok(!parked.is_empty())
    }

    /// What is due; for a lane that has recovered also what was put off because it hadn't. Goes through the
    /// subscriptions in turn.
    async fn due(&mut self, now: DateTime<Utc>) -> Result<Vec<Parked>, RelayError> {
        let congestion = &self.relay.congestion;
        let (full, recovered) = (congestion.full(), congestion.recovered());
        let lanes = Lanes { full: &full, recovered: &recovered };
        let client = self.relay.database.client().await?;
        let mut parked = store::parked(&client, now, lanes, self.parked_after, STEP).await?;
        if parked.is_empty() && !self.parked_after.is_nil() {
            parked = store::parked(&client, now, lanes, Uuid::nil(), STEP).await?;
        }
        let is_part = i64::try_from(parked.len()).unwrap_or(i64::MAX) >= STEP.1;
        let last = parked.last().map(|parked| parked.subscription_id);
        self.parked_after = last.filter(|_| is_part).unwrap_or_default();
        if !is_part {
            let come: HashSet<Uuid> = parked.iter().map(|parked| parked.subscription_id).collect();
            congestion.is_over(recovered.iter().copied().filter(|id| !come.contains(id)));
        }
        Ok(parked)
    }

    /// Parks what is long overdue while the queue is empty: the queue has lost it.
    async fn rescue(&mut self) -> Result<(), RelayError> {
        let queue = self.relay.broker.depth(&self.queue).await;
        if queue.is_none_or(|queue| queue.ready > 0) {
            return Ok(());
        }
        let now = clock::now();
        let client = self.relay.database.client().await?;
        let rescued = store::rescue(&client, now, now - self.relay.rescue_after, LOST).await?;
        if rescued > 0 {
            tracing::warn!(rescued, "overdue deliveries are put into the queue again");
        }
        Ok(())
    }
}

/// Says that deliveries are in the queue now.
struct Unpark<'a> {
    queued: &'a [&'a Parked],
}

impl Work for Unpark<'_> {
    type Output = ();

    async fn run(&self, tx: &Transaction<'_>) -> Result<(), TxError> {
        store::unpark(tx, self.queued).await
    }
}

fn meta(parked: &Parked, now: DateTime<Utc>) -> DeliveryMeta {
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
fn message<'a>(queue: &'a str, meta: &DeliveryMeta, envelope: &'a str) -> Outgoing<'a> {
    let traceparent = meta.traceparent.clone();
    Outgoing { queue, meta: meta.to_header(), traceparent, body: envelope.as_bytes(), waits: None }
}
