//! Settles the deliveries of one consumer with the broker. Acknowledgements of several units are sent as one: each costs the
//! broker a write to its disk, and several threads a wake-up.
//!
//! Whatever is sent is handed over to the AMQP library, and not waited for: if the connection breaks, the consumer ends,
//! and the broker delivers again what it did not get to know.

use super::unacknowledged::UnacknowledgedGuard;
use futures_util::FutureExt;
use lapin::Channel;
use lapin::options::{BasicAckOptions, BasicRejectOptions};
use lapin::types::DeliveryTag;
use std::pin::pin;
use std::time::Duration;
use tokio::time::Instant;

/// How long an acknowledgement waits for others. It may wait until the next unit is handled.
const WAIT: Duration = Duration::from_millis(50);

/// How a delivery is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settlement {
    /// The acknowledgement may wait for others.
    Acknowledge,
    AcknowledgeNow,
    /// The message goes to the dead-letter queue.
    Reject,
    /// The message stays unacknowledged.
    Leave,
}

/// The deliveries of a unit, in the order of their tags unless some had been put off.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) deliveries: Vec<(DeliveryTag, Settlement)>,
    /// Whether nothing that was delivered before them is unsettled, besides what waits to be acknowledged.
    pub(super) all_before: bool,
}

/// What the broker is to be told about the deliveries of a consumer.
#[derive(Debug)]
pub(super) struct Acknowledgements {
    channel: Channel,
    /// With so many nothing waits, because the broker counts them against the prefetch.
    most: usize,
    waiting: Option<Waiting>,
    /// Count the units that wait as unacknowledged.
    guards: Vec<UnacknowledgedGuard>,
}

/// Deliveries that were handled and are not acknowledged: all up to the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiting {
    last: DeliveryTag,
    count: usize,
    until: Instant,
}

impl Acknowledgements {
    /// Of a consumer on `channel` with this prefetch.
    pub(super) fn new(channel: Channel, prefetch: u16) -> Self {
        Self { channel, most: usize::from(prefetch / 4), waiting: None, guards: Vec::new() }
    }

    /// Until when [`Acknowledgements::send`] must be called, if nothing else is settled before.
    pub(super) fn wait_until(&self) -> Option<Instant> {
        self.waiting.map(|waiting| waiting.until)
    }

    /// Leaves a unit to be acknowledged with the next ones, and keeps the guard that counts it as unacknowledged, if that may be.
    /// Otherwise returns the guard, and the unit must be [settled](Self::settle).
    pub(super) fn postpone(&mut self, settled: &Settled, guard: UnacknowledgedGuard) -> Option<UnacknowledgedGuard> {
        let Some(waiting) = settled.with(self.waiting, self.most, Instant::now()) else { return Some(guard) };
        self.waiting = Some(waiting);
        self.guards.push(guard);
        None
    }

    /// Acknowledges what waits.
    pub(super) fn send(&mut self) -> lapin::Result<()> {
        self.guards.clear();
        self.waiting.take().map_or(Ok(()), |waiting| self.acknowledge(waiting.last, true))
    }

    /// Settles a unit, and acknowledges what waits.
    pub(super) fn settle(&mut self, settled: &Settled) -> lapin::Result<()> {
        // Rejections go first: acknowledging several at once then covers only deliveries that are to be acknowledged.
        for (tag, _) in settled.deliveries.iter().filter(|(_, settlement)| *settlement == Settlement::Reject) {
            self.reject(*tag)?;
        }
        let acknowledgements = settled.acknowledgements();
        if acknowledgements.iter().any(|(_, multiple)| *multiple) {
            // It covers those that wait.
            self.waiting = None;
        }
        self.send()?;
        acknowledgements.into_iter().try_for_each(|(tag, multiple)| self.acknowledge(tag, multiple))
    }

    /// Rejects a delivery to the dead-letter queue.
    pub(super) fn reject(&self, tag: DeliveryTag) -> lapin::Result<()> {
        hand_over(self.channel.basic_reject(tag, BasicRejectOptions { requeue: false }))
    }

    fn acknowledge(&self, tag: DeliveryTag, multiple: bool) -> lapin::Result<()> {
        hand_over(self.channel.basic_ack(tag, BasicAckOptions { multiple }))
    }
}

impl Settled {
    /// What waits together with this unit; `None` if it may not wait, or not any longer.
    fn with(&self, waiting: Option<Waiting>, most: usize, now: Instant) -> Option<Waiting> {
        let last = self.deliveries.iter().map(|(tag, _)| *tag).max()?;
        let (count, until) = waiting.map_or((0, now + WAIT), |waiting| (waiting.count, waiting.until));
        let count = count + self.deliveries.len();
        let may_wait = self.deliveries.iter().all(|(_, settlement)| *settlement == Settlement::Acknowledge);
        (self.all_before && may_wait && count < most && now < until).then_some(Waiting { last, count, until })
    }

    /// The deliveries to acknowledge, each with whether it acknowledges all deliveries before it as well.
    fn acknowledgements(&self) -> Vec<(DeliveryTag, bool)> {
        let is_acknowledged = |(_, settlement): &&(DeliveryTag, Settlement)| {
            matches!(settlement, Settlement::Acknowledge | Settlement::AcknowledgeNow)
        };
        let tags = self.deliveries.iter().filter(is_acknowledged).map(|(tag, _)| *tag);
        if self.all_before && self.deliveries.iter().all(|(_, settlement)| *settlement != Settlement::Leave) {
            return tags.max().map(|tag| (tag, true)).into_iter().collect();
        }
        tags.map(|tag| (tag, false)).collect()
    }
}

/// Hands a command over to the AMQP library, which happens when it is polled first.
fn hand_over(command: impl Future<Output = lapin::Result<()>>) -> lapin::Result<()> {
    pin!(command).now_or_never().unwrap_or(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::Settlement::{Acknowledge, AcknowledgeNow, Leave, Reject};
    use super::*;

    fn settled(settlements: &[Settlement], all_before: bool) -> Settled {
        Settled { deliveries: (5..).zip(settlements.iter().copied()).collect(), all_before }
    }

    #[test]
    fn deliveries_are_acknowledged_together_unless_one_is_left_or_an_older_one_is_unsettled() {
        let of = |settlements: &[Settlement], all_before| settled(settlements, all_before).acknowledgements();
        assert_eq!(of(&[Acknowledge, AcknowledgeNow], true), [(6, true)]);
        assert_eq!(of(&[Acknowledge, Reject, Acknowledge, Reject], true), [(7, true)]);
        assert_eq!(of(&[Reject], true), []);
        assert_eq!(of(&[Leave, Acknowledge, Acknowledge], true), [(6, false), (7, false)]);
        assert_eq!(of(&[Acknowledge, Acknowledge], false), [(5, false), (6, false)]);
    }

    #[test]
    fn a_unit_waits_with_others_unless_one_of_its_deliveries_may_not() {
        let now = Instant::now();
        let others = Waiting { last: 4, count: 2, until: now + WAIT / 2 };
        let with =
            |waiting, settlements: &[Settlement], all_before| settled(settlements, all_before).with(waiting, 5, now);
        let both = [Acknowledge, Acknowledge];
        assert_eq!(with(None, &both, true), Some(Waiting { last: 6, count: 2, until: now + WAIT }));
        assert_eq!(with(Some(others), &both, true), Some(Waiting { last: 6, count: 4, until: others.until }));
        assert_eq!(with(Some(others), &both, false), None, "something before is unsettled");
        for other in [AcknowledgeNow, Reject, Leave] {
            assert_eq!(with(Some(others), &[Acknowledge, other], true), None, "{other:?}");
        }
        assert_eq!(with(Some(others), &[Acknowledge; 3], true), None, "too many");
        assert_eq!(with(Some(Waiting { until: now, ..others }), &both, true), None, "too long");
    }
}
