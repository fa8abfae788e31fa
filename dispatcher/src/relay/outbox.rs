//! New events: fanned out into deliveries, published, marked as relayed.

use super::{CONFIRM_WITHIN, RelayError, Worker};
use crate::fan_out::{OutboxEvent, Subscription, delivery_id};
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
/// Deliveries of one step; a single event may have more.
const DELIVERIES: usize = 8_192;

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

        let mut fanned = Fanned::within(&events, &subscriptions, DELIVERIES);
        let results = self.publish(&fanned).await;
        for (fanned, results) in fanned.iter_mut().zip(&results) {
            fanned.park_refused(results);
        }
        let unavailable = Err(PublishError::Unavailable);
        let (done, open): (Vec<_>, Vec<_>) =
            fanned.iter().zip(&results).partition(|(_, results)| !results.contains(&unavailable));
        let done: Vec<&Fanned<'_>> = done.into_iter().map(|(fanned, _)| fanned).collect();
        self.relay.database.run_tx("relay", &Step { done: &done, now: clock::now() }).await?;
        if !open.is_empty() {
            return Err(PublishError::Unavailable.into());
        }
        Ok(fanned.len() < events.len() || events.len() == usize::try_from(EVENTS).unwrap_or(usize::MAX))
    }

    /// Publishes every delivery that isn't parked. For each event the results of its deliveries, in their order.
    async fn publish(&mut self, fanned: &[Fanned<'_>]) -> Vec<Vec<Result<(), PublishError>>> {
        let now = clock::now();
        let mut results: Vec<Vec<_>> =
            fanned.iter().map(|fanned| vec![Ok(()); fanned.deliveries.len()]).collect();
        let due: Vec<(usize, usize)> =
            fanned.iter().enumerate().flat_map(|(at, fanned)| fanned.due(at)).collect();
        for round in due.chunks(TOGETHER) {
            let messages: Vec<Outgoing<'_>> = round
                .iter()
                .map(|&(event, delivery)| fanned[event].message(delivery, &self.queue, now))
                .collect();
            let published = self.publisher.publish(&messages, CONFIRM_WITHIN).await;
            for (&(event, delivery), result) in round.iter().zip(published) {
                results[event][delivery] = result;
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
    /// The first events that together have no more than `most` deliveries; at least one.
    fn within(events: &'e [OutboxEvent], subscriptions: &[Subscription], most: usize) -> Vec<Self> {
        let mut fanned: Vec<Self> = Vec::with_capacity(events.len());
        let mut deliveries = 0;
        for event in events {
            let next = Self::out(event, subscriptions);
            deliveries += next.deliveries.len();
            if deliveries > most && !fanned.is_empty() {
                break;
            }
            fanned.push(next);
        }
        fanned
    }

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

    /// The places of the deliveries that go out at once, with the event's own.
    fn due(&self, event: usize) -> impl Iterator<Item = (usize, usize)> {
        let deliveries = self.deliveries.iter().enumerate();
        deliveries.filter(|(_, delivery)| !delivery.is_parked).map(move |(at, _)| (event, at))
    }

    fn message<'a>(&'a self, at: usize, queue: &'a str, now: DateTime<Utc>) -> Outgoing<'a> {
        let delivery = &self.deliveries[at];
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
    }

    /// What the queue has no room for begins in the database.
    fn park_refused(&mut self, results: &[Result<(), PublishError>]) {
        for (delivery, result) in self.deliveries.iter_mut().zip(results) {
            delivery.is_parked |= *result == Err(PublishError::Refused);
        }
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
