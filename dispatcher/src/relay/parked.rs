//! Deliveries that wait in the database: back into the queue when it is their time.

use super::{CONFIRM_WITHIN, RelayError, Worker};
use crate::store::{self, Lanes, Parked};
use chrono::{DateTime, Utc};
use common::broker::Outgoing;
use common::clock;
use common::db::{TxError, Work};
use common::message::DeliveryMeta;
use common::model::TenantId;
use deadpool_postgres::Transaction;
use std::collections::HashSet;
use uuid::Uuid;

/// Deliveries of one step: of a subscription, and in all.
const STEP: (i64, i64) = (128, 1_024);
/// Lost deliveries found in one step.
const LOST: i64 = 1_000;

impl Worker {
    /// Puts parked deliveries that are due into the queue; whether there may be more.
    pub(super) async fn unpark(&mut self) -> Result<bool, RelayError> {
        let now = clock::now();
        let parked = self.due(now).await?;
        let metas: Vec<DeliveryMeta> = parked.iter().map(|parked| meta(parked, now)).collect();
        let messages: Vec<Outgoing<'_>> = parked
            .iter()
            .zip(&metas)
            .map(|(parked, meta)| super::message(&self.queue, meta, &parked.envelope))
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
    pub(super) async fn rescue(&mut self) -> Result<(), RelayError> {
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
