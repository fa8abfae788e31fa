//! New events: fanned out into deliveries, published, marked as relayed.

use super::{CONFIRM_WITHIN, OutboxEvent, RelayError, Subscription, Worker, delivery_id};
use crate::store::{self, NewDelivery};
use chrono::{DateTime, Utc};
use common::broker::{Outgoing, PublishError};
use common::clock;
use common::db::{TxError, Work};
use common::message::DeliveryMeta;
use common::model::TenantId;
use deadpool_postgres::Transaction;
use futures_util::try_join;
use std::collections::BTreeSet;
use uuid::Uuid;

/// Events of one step.
const EVENTS: i64 = 256;
/// Messages published together: a step with more of them takes several rounds.
const TOGETHER: usize = 1_024;

impl Worker {
    /// Relays what waits in the outbox; whether there may be more.
    pub(super) async fn relay_outbox(&mut self) -> Result<bool, RelayError> {
        let client = self.relay.database.client().await?;
        let events = store::pending(&client, EVENTS).await?;
        if events.is_empty() {
            return Ok(false);
        }
        let tenants: Vec<Uuid> =
            events.iter().map(|event| event.tenant_id).collect::<BTreeSet<_>>().into_iter().collect();
        let subscriptions = store::of_tenants(&client, &tenants).await?;
        drop(client);

        let fanned: Vec<Fanned<'_>> = events.iter().map(|event| Fanned::out(event, &subscriptions)).collect();
        let published = self.publish(&fanned).await;
        let done: Vec<&Fanned<'_>> = fanned
            .iter()
            .zip(&published)
            .filter(|(_, result)| result.is_ok())
            .map(|(fanned, _)| fanned)
            .collect();
        let step = Step { done: &done, now: clock::now() };
        self.relay.database.run_tx("relay", &step).await?;
        published.into_iter().collect::<Result<(), _>>()?;
        Ok(events.len() == usize::try_from(EVENTS).unwrap_or(usize::MAX))
    }

    /// Publishes every delivery that isn't parked. One result for each event: all of its deliveries, or not.
    async fn publish(&mut self, fanned: &[Fanned<'_>]) -> Vec<Result<(), PublishError>> {
        let now = clock::now();
        let mut results = vec![Ok(()); fanned.len()];
        let due: Vec<(usize, Outgoing<'_>)> = fanned
            .iter()
            .enumerate()
            .flat_map(|(at, fanned)| fanned.messages(&self.queue, now).map(move |message| (at, message)))
            .collect();
        for round in due.chunks(TOGETHER) {
            let messages: Vec<Outgoing<'_>> = round.iter().map(|(_, message)| message.clone()).collect();
            let published = self.publisher.publish(&messages, CONFIRM_WITHIN).await;
            for ((at, _), result) in round.iter().zip(published) {
                results[*at] = results[*at].and(result);
            }
        }
        results
    }
}

/// An event with its deliveries.
struct Fanned<'e> {
    event: &'e OutboxEvent,
    deliveries: Vec<NewDelivery>,
}

impl<'e> Fanned<'e> {
    fn out(event: &'e OutboxEvent, subscriptions: &[Subscription]) -> Self {
        let delivery = |subscription: &Subscription| NewDelivery {
            tenant_id: event.tenant_id,
            delivery_id: delivery_id(event.event_id, subscription.id),
            event_id: event.event_id,
            subscription_id: subscription.id,
            is_parked: subscription.is_paused,
        };
        let wanted = subscriptions.iter().filter(|subscription| subscription.wants(event));
        Self { event, deliveries: wanted.map(delivery).collect() }
    }

    /// The messages of the deliveries that go out at once.
    fn messages<'a>(&'a self, queue: &'a str, now: DateTime<Utc>) -> impl Iterator<Item = Outgoing<'a>> {
        self.deliveries.iter().filter(|delivery| !delivery.is_parked).map(move |delivery| {
            let meta = DeliveryMeta {
                tenant_id: TenantId(delivery.tenant_id),
                delivery_id: delivery.delivery_id,
                subscription_id: delivery.subscription_id,
                event_id: delivery.event_id,
                event_type: self.event.event_type.clone(),
                attempt: 1,
                published_at: now,
                traceparent: self.event.traceparent.clone(),
                request_id: self.event.request_id,
            };
            super::message(queue, &meta, &self.event.envelope)
        })
    }
}

/// Marks what was published.
struct Step<'a> {
    done: &'a [&'a Fanned<'a>],
    now: DateTime<Utc>,
}

impl Work for Step<'_> {
    type Output = ();

    async fn run(&self, tx: &Transaction<'_>) -> Result<(), TxError> {
        let deliveries: Vec<NewDelivery> =
            self.done.iter().flat_map(|fanned| fanned.deliveries.iter().copied()).collect();
        let events: Vec<&OutboxEvent> = self.done.iter().map(|fanned| fanned.event).collect();
        try_join!(
            store::insert_deliveries(tx, &deliveries, self.now),
            store::relayed(tx, &events, self.now)
        )?;
        Ok(())
    }
}
