//! New events: read with the subscriptions of their agencies in one round trip, fanned out, handed to this program's lanes.

use super::Relay;
use super::turn::Turn;
use crate::deliver::{HandOff, Overflow};
use crate::fan_out::{OutboxEvent, delivery_id};
use crate::store::{self, Pending, Subscriber};
use common::broker::Queue;
use common::clock;
use common::db::{Client, TxError};
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Longest wait for a notification: what a lost one costs.
const POLL: Duration = Duration::from_millis(250);
/// Most events read at once.
const EVENTS: usize = 256;
/// How long events wait for room, when no other copy takes from the queue.
const PATIENCE: Duration = Duration::from_millis(250);
/// How often the broker is asked whether other copies take from the queue, at most.
const ASK_FOR_OTHERS: Duration = Duration::from_secs(1);

/// What is left in the outbox after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Nothing that isn't in flight, as far as is known.
    Nothing,
    /// Perhaps more.
    More,
    /// More, but there is no room for it; that much is needed.
    NoRoom(usize),
}

/// Relays new events while this copy is the leader.
#[derive(Debug)]
pub(super) struct OutboxRelay {
    relay: Relay,
    /// Everything that was pending when this copy became the leader has been handed off. Until then an event may be
    /// one that a leader before was about to record: its deliveries are looked up.
    is_caught_up: bool,
    /// Deliveries of an event, as it was lately.
    fan_out: usize,
    overflow: Overflow,
    /// Room that the event needs for which there was none; 0 when there was.
    needed: usize,
    /// Whether another copy takes from the queue, and when that was asked.
    others: Option<(bool, Instant)>,
}

impl OutboxRelay {
    pub(super) const fn new(relay: Relay) -> Self {
        Self { relay, is_caught_up: false, fan_out: 1, overflow: Overflow::Waits, needed: 0, others: None }
    }

    /// Relays until the leadership is `over`. Passes on calls for parked deliveries.
    pub(super) async fn run(
        &mut self,
        turn: &Turn,
        called_for_parked: &Notify,
        over: &CancellationToken,
    ) -> Result<(), TxError> {
        while !over.is_cancelled() {
            turn.check()?;
            if turn.was_called_for_parked() {
                called_for_parked.notify_one();
            }
            match self.step().await? {
                Left::More => {}
                Left::NoRoom(needed) => drop(over.run_until_cancelled(self.wait_for_room(needed)).await),
                Left::Nothing => drop(over.run_until_cancelled(turn.wait(POLL)).await),
            }
        }
        Ok(())
    }

    /// Hands off what waits in the outbox.
    async fn step(&mut self) -> Result<Left, TxError> {
        let room = self.relay.direct.room();
        if room >= self.relay.direct.refill().max(self.needed) {
            (self.overflow, self.needed) = (Overflow::Waits, 0);
        }
        let limit = match self.overflow {
            Overflow::Waits if room == 0 => return Ok(Left::NoRoom(1)),
            Overflow::Waits => (room / self.fan_out).clamp(1, EVENTS),
            Overflow::ToQueue => EVENTS,
        };
        let in_flight = self.relay.direct.in_flight();
        let client = self.relay.database.client().await?;
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let pending = store::pending(&client, most, &in_flight, clock::now()).await?;
        let read = pending.events.len();
        let by_tenant = by_tenant(&pending.subscribers);
        let recorded = self.recorded(&client, &pending, &by_tenant).await?;
        drop(client);

        match self.hand_off(pending.events, &by_tenant, &recorded).await {
            HandOff::Deferred(needed) => Ok(Left::NoRoom(needed)),
            HandOff::Taken if read == limit => Ok(Left::More),
            HandOff::Taken => {
                self.is_caught_up = true;
                Ok(Left::Nothing)
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
            let is_open = |one: &&Subscriber| !recorded.contains(&delivery_id(event_id, one.subscription.id));
            let mut wanting = wanting(&event, subscribers);
            if !recorded.is_empty() {
                wanting.retain(is_open);
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

    /// Deliveries that are on record already. Only events that another leader may have begun can have some.
    async fn recorded(
        &self,
        client: &Client,
        pending: &Pending,
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
        Ok(store::known(client, &keys).await?.into_keys().collect())
    }

    /// Waits until there is room for a good part of the direct deliveries. When hardly any becomes free, because receivers
    /// that used to respond soon do not, or when other copies take from the queue, what waits goes there.
    async fn wait_for_room(&mut self, needed: usize) {
        self.needed = needed;
        let patience = if self.has_others().await { Duration::ZERO } else { PATIENCE };
        let direct = &self.relay.direct;
        let is_refilled = timeout(patience, direct.wait_for_room(needed)).await.is_ok();
        if !is_refilled && (patience.is_zero() || direct.room() < direct.trickle()) {
            self.overflow = Overflow::ToQueue;
        }
    }

    /// Whether another copy takes from the queue, as of late.
    async fn has_others(&mut self) -> bool {
        match self.others {
            Some((has_others, asked)) if asked.elapsed() < ASK_FOR_OTHERS => has_others,
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

/// Who hears of an event.
fn wanting<'s>(event: &OutboxEvent, subscribers: &HashMap<Uuid, Vec<&'s Subscriber>>) -> Vec<&'s Subscriber> {
    let of_tenant = subscribers.get(&event.tenant_id).into_iter().flatten();
    of_tenant.filter(|one| one.subscription.wants(event)).copied().collect()
}
