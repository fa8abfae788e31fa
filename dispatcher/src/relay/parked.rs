//! Deliveries that wait in the database: back into the queue when it is their time.

use super::{CONFIRM_WITHIN, RelayError, Worker};
use crate::store::{self, Lanes, Parked};
use chrono::{DateTime, Utc};
use common::broker::Outgoing;
use common::clock;
use common::message::DeliveryMeta;
use common::model::TenantId;
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
        let queued: Vec<&Parked> = parked
            .iter()
            .zip(&published)
            .filter(|(_, result)| result.is_ok())
            .map(|(parked, _)| parked)
            .collect();
        if !queued.is_empty() {
            store::unpark(&self.relay.database.client().await?, &queued).await?;
        }
        published.into_iter().collect::<Result<(), _>>()?;
        Ok(!parked.is_empty())
    }

    /// What is due; for a lane that has recovered also what was put off because it hadn't.
    async fn due(&self, now: DateTime<Utc>) -> Result<Vec<Parked>, RelayError> {
        let congestion = &self.relay.congestion;
        let (full, recovered) = (congestion.full(), congestion.recovered());
        let client = self.relay.database.client().await?;
        let parked = store::parked(&client, now, Lanes { full: &full, recovered: &recovered }, STEP).await?;
        let come: HashSet<Uuid> = parked.iter().map(|parked| parked.subscription_id).collect();
        congestion.is_over(recovered.into_iter().filter(|id| !come.contains(id)));
        Ok(parked)
    }

    /// Parks what is long overdue: the queue has lost it, or is so far behind that a second message does no harm.
    pub(super) async fn rescue(&mut self) -> Result<(), RelayError> {
        let now = clock::now();
        let client = self.relay.database.client().await?;
        let rescued = store::rescue(&client, now, now - self.relay.rescue_after, LOST).await?;
        if rescued > 0 {
            tracing::warn!(rescued, "overdue deliveries are put into the queue again");
        }
        Ok(())
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
