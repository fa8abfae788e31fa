//! New events: read with the subscriptions of their tenants in one round trip, fanned out, and handed to the lanes.

use super::Relay;
use super::leadership::RelayLeadership;
use crate::deliver::{HandOff, Overflow};
use crate::fan_out::OutboxEvent;
use crate::store::{self, PendingEvents, Subscriber};
use common::broker::Queue;
use common::clock;
use common::db::{Client, TxError};
use common::message::delivery_id;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Longest wait for a notification, in case one is lost.
const POLL: Duration = Duration::from_millis(250);
/// Maximum number of events read at once.
const EVENTS: usize = 256;
/// How long events wait for free slots when no other copy consumes the queue.
const SLOT_WAIT: Duration = Duration::from_millis(250);
/// Shortest time between two checks of whether other copies consume the queue.
const OTHERS_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// What a step leaves in the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remaining {
    /// No event that is not in flight.
    Nothing,
    /// The batch was full, so more events may wait.
    More,
    /// More events, but too few free slots; this many are needed.
    NoFreeSlots(usize),
}

/// Relays new events while this copy is the leader.
#[derive(Debug)]
pub(super) struct OutboxRelay {
    relay: Relay,
    /// Whether all events that were pending when this copy became the leader have been handed off. Until then the deliveries
    /// of each event are looked up, because the previous leader may have recorded some of them.
    is_caught_up: bool,
    /// Deliveries that an event is expected to have: the average of the last batch, or the number of the event that was deferred last.
    fan_out: usize,
    overflow: Overflow,
    /// Slots needed by a deferred event; 0 for none.
    needed: usize,
    /// Whether another copy consumes the queue, and when this was checked.
    others: Option<(bool, Instant)>,
}

impl OutboxRelay {
    pub(super) const fn new(relay: Relay) -> Self {
        Self { relay, is_caught_up: false, fan_out: 1, overflow: Overflow::Waits, needed: 0, others: None }
    }

    /// Relays until `leadership_ended`. Passes notifications about parked deliveries on.
    pub(super) async fn run(
        &mut self,
        leadership: &RelayLeadership,
        parked_notified: &Notify,
        leadership_ended: &CancellationToken,
    ) -> Result<(), TxError> {
        while !leadership_ended.is_cancelled() {
            leadership.check()?;
            if leadership.take_parked_notification() {
                parked_notified.notify_one();
            }
            match self.step().await? {
                Remaining::More => {}
                Remaining::NoFreeSlots(needed) => {
                    leadership_ended.run_until_cancelled(self.wait_for_slots(needed)).await;
                }
                Remaining::Nothing => drop(leadership_ended.run_until_cancelled(leadership.wait(POLL)).await),
            }
        }
        Ok(())
    }

    /// Hands off pending events.
    async fn step(&mut self) -> Result<Remaining, TxError> {
        let free = self.relay.direct.free_slots();
        if free >= self.relay.direct.refill_threshold().max(self.needed) {
            // Events are handed off directly again, and no longer go through the queue.
            (self.overflow, self.needed) = (Overflow::Waits, 0);
        }
        let limit = match self.overflow {
            Overflow::Waits if free == 0 => return Ok(Remaining::NoFreeSlots(1)),
            Overflow::Waits => (free / self.fan_out).clamp(1, EVENTS),
            Overflow::ToQueue => EVENTS,
        };
        let in_flight = self.relay.direct.in_flight();
        let client = self.relay.database.client().await?;
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let pending = store::load_pending(&client, most, &in_flight, clock::now()).await?;
        let read = pending.events.len();
        let by_tenant = by_tenant(&pending.subscribers);
        let recorded = self.recorded(&client, &pending, &by_tenant).await?;
        drop(client);

        match self.hand_off(pending.events, &by_tenant, &recorded).await {
            HandOff::Deferred(needed) => Ok(Remaining::NoFreeSlots(needed)),
            HandOff::Taken if read == limit => Ok(Remaining::More),
            HandOff::Taken => {
                self.is_caught_up = true;
                Ok(Remaining::Nothing)
            }
        }
    }

    /// Hands events off in their order, until one of them is deferred.
    async fn hand_off(
        &mut self,
        events: Vec<OutboxEvent>,
        subscribers: &HashMap<Uuid, Vec<&Subscriber>>,
        recorded: &HashSet<Uuid>,
    ) -> HandOff {
        let now = clock::now();
        let (count, mut deliveries) = (events.len(), 0);
        for event in events {
            let event_id = event.event_id;
            let is_unrecorded =
                |one: &&Subscriber| !recorded.contains(&delivery_id(event_id, one.subscription.id));
            let mut wanting = wanting(&event, subscribers);
            if !recorded.is_empty() {
                wanting.retain(is_unrecorded);
            }
            deliveries += wanting.len();
            let handed = self.relay.direct.hand_off(event, &wanting, self.overflow, now).await;
            if handed != HandOff::Taken {
                self.fan_out = wanting.len().max(1);
                return handed;
            }
        }
        self.fan_out = deliveries.checked_div(count).unwrap_or(self.fan_out).max(1);
        HandOff::Taken
    }

    /// Deliveries that are recorded already, which only events of a previous leader can have.
    async fn recorded(
        &self,
        client: &Client,
        pending: &PendingEvents,
        subscribers: &HashMap<Uuid, Vec<&Subscriber>>,
    ) -> Result<HashSet<Uuid>, TxError> {
        if self.is_caught_up {
            return Ok(HashSet::new());
        }
        let keys: Vec<(Uuid, Uuid)> = pending
            .events
            .iter()
            .flat_map(|event| {
                let wanting = wanting(event, subscribers).into_iter();
                wanting.map(|one| (event.tenant_id, delivery_id(event.event_id, one.subscription.id)))
            })
            .collect();
        if keys.is_empty() {
            return Ok(HashSet::new());
        }
        Ok(store::load_progress(client, &keys).await?.into_keys().collect())
    }

    /// Waits until enough slots are free. If hardly any slot becomes free, because receivers stopped responding quickly, or if
    /// other copies consume the queue, waiting events go through the queue.
    async fn wait_for_slots(&mut self, needed: usize) {
        self.needed = needed;
        let wait = if self.has_others().await { Duration::ZERO } else { SLOT_WAIT };
        let direct = &self.relay.direct;
        let is_refilled = timeout(wait, direct.wait_for_slots(needed)).await.is_ok();
        if !is_refilled && (wait.is_zero() || direct.free_slots() < direct.release_threshold()) {
            self.overflow = Overflow::ToQueue;
        }
    }

    /// Whether another copy consumes the queue; cached for a second.
    async fn has_others(&mut self) -> bool {
        match self.others {
            Some((has_others, checked)) if checked.elapsed() < OTHERS_CHECK_INTERVAL => has_others,
            Some(_) | None => {
                let queue = self.relay.broker.depth(&self.relay.broker.queue_name(Queue::Webhooks)).await;
                let has_others = queue.is_some_and(|queue| queue.consumers > 1);
                self.others = Some((has_others, Instant::now()));
                has_others
            }
        }
    }
}

fn by_tenant(subscribers: &[Subscriber]) -> HashMap<Uuid, Vec<&Subscriber>> {
    let mut by_tenant: HashMap<Uuid, Vec<&Subscriber>> = HashMap::new();
    for one in subscribers {
        by_tenant.entry(one.subscription.tenant_id).or_default().push(one);
    }
    by_tenant
}

/// The subscribers that receive an event.
fn wanting<'s>(event: &OutboxEvent, subscribers: &HashMap<Uuid, Vec<&'s Subscriber>>) -> Vec<&'s Subscriber> {
    let of_tenant = subscribers.get(&event.tenant_id).into_iter().flatten();
    of_tenant.filter(|one| one.subscription.wants(event)).copied().collect()
}
