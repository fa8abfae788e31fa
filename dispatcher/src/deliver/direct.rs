//! First attempts directly from the outbox: the relay passes deliveries to the lanes of this program, without a message or a
//! row for each. They are recorded when their attempts have ended. Those of paused
//! subscriptions are parked (D24).
//!
//! The number of direct deliveries is bounded, and receivers that are slow or new get a quarter of it. Deliveries beyond that
//! go through the queue, from which every copy consumes, or wait in the outbox.

use super::attempt_job::AttemptJob;
use super::delivery_update::{DeliveryUpdate, Tracked};
use super::lanes::Placement;
use super::recorder::RecorderItem;
use super::scheduler::AttemptScheduler;
use super::source::{DeliverySource, OutboxDelivery, Slot};
use crate::fan_out::OutboxEvent;
use crate::store::Subscriber;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use common::message::{DeliveryMeta, delivery_id};
use common::model::TenantId;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use uuid::Uuid;

/// Share of the direct deliveries for receivers that are slow or new, as a divisor.
const SLOW_OR_NEW_DIVISOR: usize = 4;
/// Share of the direct deliveries that must be free before a saturated relay continues, as a divisor, so that it reads events
/// in batches.
const REFILL_DIVISOR: usize = 8;

/// Passes deliveries from the relay to the lanes. Cheap to clone.
#[derive(Clone)]
pub(crate) struct DirectPath {
    scheduler: Arc<AttemptScheduler>,
    slots: Arc<Semaphore>,
    slow_or_new: Arc<Semaphore>,
    capacity: usize,
}

/// What to do with deliveries to fast lanes when too few slots are free. Those to slow and new lanes go through the queue in either
/// case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// They wait in the outbox.
    Waits,
    /// They go through the queue.
    ToQueue,
}

/// The result of handing off an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandOff {
    /// It is in flight.
    Taken,
    /// Not enough slots are free; it needs this many.
    Deferred(usize),
}

impl DirectPath {
    pub(super) fn new(scheduler: Arc<AttemptScheduler>, capacity: usize) -> Self {
        Self {
            scheduler,
            slots: Arc::new(Semaphore::new(capacity)),
            slow_or_new: Arc::new(Semaphore::new((capacity / SLOW_OR_NEW_DIVISOR).max(1))),
            capacity,
        }
    }

    /// Ids of the events that are in flight in this program.
    pub(crate) fn in_flight(&self) -> Vec<Uuid> {
        self.scheduler.in_flight.list()
    }

    /// The number of further deliveries that can be taken.
    pub(crate) fn free_slots(&self) -> usize {
        self.slots.available_permits()
    }

    /// The number of free slots for which reading the outbox is worth a round trip.
    pub(crate) fn refill_threshold(&self) -> usize {
        (self.capacity / REFILL_DIVISOR).max(1)
    }

    /// With fewer free slots than this after its wait, the relay waits no longer: receivers respond slowly or not at all.
    pub(crate) fn release_threshold(&self) -> usize {
        (self.refill_threshold() / REFILL_DIVISOR).max(1)
    }

    /// Waits for [`refill_threshold`](Self::refill_threshold) free slots, and for `needed` ones if that is more.
    pub(crate) async fn wait_for_slots(&self, needed: usize) {
        let slots = needed.max(self.refill_threshold()).min(self.capacity);
        drop(self.slots.acquire_many(u32::try_from(slots).unwrap_or(u32::MAX)).await);
    }

    /// Takes an event with those of its deliveries that are not recorded yet.
    pub(crate) async fn hand_off(
        &self,
        event: OutboxEvent,
        subscribers: &[&Subscriber],
        overflow: Overflow,
        now: DateTime<Utc>,
    ) -> HandOff {
        if subscribers.is_empty() {
            let event = self.scheduler.in_flight.add(event.event_id, 0);
            self.scheduler.record(RecorderItem::Event(event)).await;
            return HandOff::Taken;
        }
        match self.place_all(&event, subscribers, overflow, now) {
            Err(needed) => HandOff::Deferred(needed),
            Ok(rest) => {
                for update in rest {
                    self.scheduler.submit(update).await;
                }
                HandOff::Taken
            }
        }
    }

    /// Enqueues deliveries in their lanes and starts attempts. Returns the deliveries that are parked or published instead, or
    /// the number of slots that are needed.
    fn place_all(
        &self,
        event: &OutboxEvent,
        subscribers: &[&Subscriber],
        overflow: Overflow,
        now: DateTime<Utc>,
    ) -> Result<Vec<DeliveryUpdate>, usize> {
        let scheduler = &self.scheduler;
        let endpoint = |one: &&Subscriber| scheduler.endpoints.of(one.subscription.id, &one.target);
        let endpoints: Vec<_> = subscribers.iter().map(endpoint).collect();
        let instant = Instant::now();
        let mut lanes = scheduler.lanes();
        let placement_of = |one: &&Subscriber| match one.subscription.is_paused {
            true => Placement::Park(Duration::ZERO),
            false => lanes.placement(one.subscription.id, instant),
        };
        let placements: Vec<Placement> = subscribers.iter().map(placement_of).collect();
        let wanted = placements.iter().filter(|placement| **placement == Placement::FastLane).count();
        // An event that needs more than half of all slots is not deferred, because it would wait too long.
        if overflow == Overflow::Waits && wanted > self.free_slots() && wanted <= self.capacity / 2 {
            return Err(wanted);
        }
        let in_flight = scheduler.in_flight.add(event.event_id, subscribers.len());
        let body = Bytes::from(event.envelope.clone());
        let mut rest = Vec::new();
        for ((one, endpoint), placement) in subscribers.iter().zip(endpoints).zip(placements) {
            let (meta, body) = (meta(event, one.subscription.id, now), body.clone());
            let slot = match placement {
                Placement::FastLane | Placement::SlowOrNewLane => self.slot(placement),
                Placement::Queue | Placement::Park(_) => None,
            };
            let Some(slot) = slot else {
                let source = DeliverySource::Outbox(OutboxDelivery::new(Arc::clone(&in_flight)));
                rest.push(match placement {
                    Placement::Park(wait) => DeliveryUpdate::parked(meta, body, source, wait, Tracked::No),
                    Placement::Queue | Placement::FastLane | Placement::SlowOrNewLane => {
                        DeliveryUpdate::queued(meta, body, source, Tracked::No)
                    }
                });
                continue;
            };
            let source = DeliverySource::Outbox(OutboxDelivery::with_slot(Arc::clone(&in_flight), slot));
            // If a message for the same attempt is not recorded yet, this delivery is recorded with it.
            if let Some(source) = scheduler.unrecorded.begin(&meta, source) {
                let job = AttemptJob { meta, body, source, endpoint, made: 0 };
                lanes.queue(one.subscription.id, job, instant);
            }
        }
        let started = lanes.start(instant);
        drop(lanes);
        scheduler.run(started, instant);
        Ok(rest)
    }

    fn slot(&self, placement: Placement) -> Option<Slot> {
        let of_slow_or_new = match placement {
            Placement::SlowOrNewLane => Some(Arc::clone(&self.slow_or_new).try_acquire_owned().ok()?),
            Placement::FastLane | Placement::Queue | Placement::Park(_) => None,
        };
        Some(Slot::new(Arc::clone(&self.slots).try_acquire_owned().ok()?, of_slow_or_new))
    }
}

fn meta(event: &OutboxEvent, subscription_id: Uuid, now: DateTime<Utc>) -> DeliveryMeta {
    DeliveryMeta {
        tenant_id: TenantId(event.tenant_id),
        delivery_id: delivery_id(event.event_id, subscription_id),
        subscription_id,
        event_id: event.event_id,
        event_type: event.event_type.clone(),
        attempt: 1,
        published_at: now,
        traceparent: event.traceparent.clone(),
        request_id: event.request_id,
    }
}

impl fmt::Debug for DirectPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectPath").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}
