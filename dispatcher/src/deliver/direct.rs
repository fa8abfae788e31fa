//! First attempts straight from the outbox: the relay hands deliveries to this program's own lanes, without a message and
//! without a row for each. They go on record when their attempts have ended.
//!
//! The number of direct deliveries is bounded, and receivers that have not proved to respond soon get a quarter of it. What
//! is beyond goes through the queue, where every copy takes its share, or waits in the outbox.

use super::entry::{Entry, Opened};
use super::job::Job;
use super::lanes::Placement;
use super::ledger::Note;
use super::origin::{Origin, OutboxPart, Slot};
use super::scheduler::AttemptScheduler;
use crate::fan_out::{OutboxEvent, delivery_id};
use crate::store::Subscriber;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use common::message::DeliveryMeta;
use common::model::TenantId;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use uuid::Uuid;

/// The part of the direct deliveries for receivers that have not proved to respond soon, as a divisor.
const UNPROVEN_DIVISOR: usize = 4;
/// The part of the direct deliveries that must be free before a relay which found no room goes on, as a divisor: fewer
/// would be read one by one.
const REFILL_DIVISOR: usize = 8;

/// The way from the relay into the lanes. Cheap to clone.
#[derive(Clone)]
pub struct DirectPath {
    scheduler: Arc<AttemptScheduler>,
    slots: Arc<Semaphore>,
    unproven: Arc<Semaphore>,
    capacity: usize,
}

/// What to do with deliveries for which there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// They wait in the outbox.
    Waits,
    /// They go through the queue.
    ToQueue,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandOff {
    /// It is in flight.
    Taken,
    /// There is no room for it now; it needs that much.
    Deferred(usize),
}

impl DirectPath {
    pub(super) fn new(scheduler: Arc<AttemptScheduler>, capacity: usize) -> Self {
        Self {
            scheduler,
            slots: Arc::new(Semaphore::new(capacity)),
            unproven: Arc::new(Semaphore::new((capacity / UNPROVEN_DIVISOR).max(1))),
            capacity,
        }
    }

    /// Events of the outbox that are in flight here.
    pub fn in_flight(&self) -> Vec<Uuid> {
        self.scheduler.in_flight.list()
    }

    /// How many more deliveries there is room for.
    pub fn room(&self) -> usize {
        self.slots.available_permits()
    }

    /// Room for enough deliveries to be worth a look at the outbox.
    pub fn refill(&self) -> usize {
        (self.capacity / REFILL_DIVISOR).max(1)
    }

    /// Room that becomes free in any case while receivers respond.
    pub fn trickle(&self) -> usize {
        (self.refill() / REFILL_DIVISOR).max(1)
    }

    /// Waits for [`refill`](Self::refill), and for as much as is `needed`.
    pub async fn wait_for_room(&self, needed: usize) {
        let room = needed.max(self.refill()).min(self.capacity);
        drop(self.slots.acquire_many(u32::try_from(room).unwrap_or(u32::MAX)).await);
    }

    /// Takes an event with those of its deliveries that are not on record yet.
    pub async fn hand_off(
        &self,
        event: OutboxEvent,
        subscribers: &[&Subscriber],
        overflow: Overflow,
        now: DateTime<Utc>,
    ) -> HandOff {
        if subscribers.is_empty() {
            let event = self.scheduler.in_flight.add(event.event_id, 0);
            self.scheduler.note(Note::Event(event)).await;
            return HandOff::Taken;
        }
        match self.place(&event, subscribers, overflow, now) {
            Err(needed) => HandOff::Deferred(needed),
            Ok(rest) => {
                for entry in rest {
                    self.scheduler.hand_in(entry).await;
                }
                HandOff::Taken
            }
        }
    }

    /// Puts deliveries into their lanes and starts what can be started. Gives those that go another way, or the
    /// room that is needed.
    fn place(
        &self,
        event: &OutboxEvent,
        subscribers: &[&Subscriber],
        overflow: Overflow,
        now: DateTime<Utc>,
    ) -> Result<Vec<Entry>, usize> {
        let scheduler = &self.scheduler;
        let endpoint = |one: &&Subscriber| scheduler.endpoints.of(one.subscription.id, &one.target);
        let endpoints: Vec<_> = subscribers.iter().map(endpoint).collect();
        let instant = Instant::now();
        let mut lanes = scheduler.lanes();
        let place = |one: &&Subscriber| match one.subscription.is_paused {
            true => Placement::Park(Duration::ZERO),
            false => lanes.place(one.subscription.id, instant),
        };
        let placements: Vec<Placement> = subscribers.iter().map(place).collect();
        let wanted = placements.iter().filter(|placement| **placement == Placement::Proven).count();
        // An event that takes half of all room or more would wait too long for it.
        if overflow == Overflow::Waits && wanted > self.room() && wanted <= self.capacity / 2 {
            return Err(wanted);
        }
        let part = scheduler.in_flight.add(event.event_id, subscribers.len());
        let body = Bytes::from(event.envelope.clone());
        let mut rest = Vec::new();
        for ((one, endpoint), placement) in subscribers.iter().zip(endpoints).zip(placements) {
            let (meta, body) = (meta(event, one.subscription.id, now), body.clone());
            let (slot, wait) = match placement {
                Placement::Park(wait) => (None, Some(wait)),
                Placement::Queue => (None, None),
                Placement::Proven | Placement::Unproven => (self.slot(placement), None),
            };
            let Some(slot) = slot else {
                let origin = Origin::Outbox(OutboxPart::new(Arc::clone(&part)));
                rest.push(match wait {
                    Some(wait) => Entry::parked(meta, body, origin, wait, Opened::No),
                    None => Entry::queued(meta, body, origin, Opened::No),
                });
                continue;
            };
            let origin = Origin::Outbox(OutboxPart::with_slot(Arc::clone(&part), slot));
            // A message of it may be under way: then this goes on record with it.
            if let Some(origin) = scheduler.open.begin(&meta, origin) {
                let job = Job { meta, body, origin, endpoint, made: 0 };
                lanes.queue(one.subscription.id, job, instant);
            }
        }
        let started = lanes.start(instant);
        drop(lanes);
        scheduler.run(started, instant);
        Ok(rest)
    }

    fn slot(&self, placement: Placement) -> Option<Slot> {
        let of_unproven = match placement {
            Placement::Unproven => Some(Arc::clone(&self.unproven).try_acquire_owned().ok()?),
            Placement::Proven | Placement::Queue | Placement::Park(_) => None,
        };
        Some(Slot::new(Arc::clone(&self.slots).try_acquire_owned().ok()?, of_unproven))
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
