//! The numbers of events, and the messages that are checked because their reply was lost. Pure.
//!
//! Always confirmed = settled + in flight + unaccounted + forgotten.

use bytes::Bytes;
use common::message::BatchMeta;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// Maximum number of messages that are kept after their callers' responses.
const KEPT_MAX: usize = 10_000;
/// Maximum size of their bodies together, in bytes.
const KEPT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long a message is checked, from the first check with a reply.
const CHECKED_FOR: Duration = Duration::from_secs(3600);
/// Wait before the second check of a message: another worker may have held it during the first one.
const SECOND_CHECK: Duration = Duration::from_secs(5);
/// Waits between further checks, and after one without a reply. They double.
const RECHECKS: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(240));

/// Numbers of events since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EventTotals {
    pub(super) confirmed: u64,
    pub(super) settled: u64,
    pub(super) in_flight: u64,
    pub(super) unaccounted: u64,
    pub(super) forgotten: u64,
}

/// A confirmed message whose reply was lost.
#[derive(Clone, Debug)]
pub(super) struct UnrepliedMessage {
    pub(super) meta: Arc<BatchMeta>,
    pub(super) body: Bytes,
    /// When a check had a reply for the first time.
    first_checked: Option<Instant>,
    check_at: Instant,
    /// The wait after the next check.
    wait: Duration,
    /// The number of its settled events, as far as is known.
    settled: u64,
    stage: CheckStage,
}

/// What the checks of a message have found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckStage {
    Unchecked,
    /// One check found events that are not settled. They still count as in flight.
    Suspect,
    /// A second check confirmed it.
    Unaccounted,
}

/// The accounts of events.
#[derive(Debug, Default)]
pub(super) struct Totals {
    events: EventTotals,
    /// By the time of the next check, and by id.
    unreplied: BTreeMap<(Instant, Uuid), UnrepliedMessage>,
    /// The number of kept messages, and the size of their bodies.
    kept: usize,
    kept_bytes: usize,
}

/// Too many messages are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeptFull;

impl UnrepliedMessage {
    fn key(&self) -> (Instant, Uuid) {
        (self.check_at, self.meta.request_id)
    }

    /// The number of its events that are not known to be settled.
    pub(super) fn unsettled(&self) -> u64 {
        u64::from(self.meta.events) - self.settled
    }

    /// The same message, to be checked after its wait, and then after twice that.
    fn after_wait(self, now: Instant) -> Self {
        Self { check_at: now + self.wait, wait: (self.wait * 2).min(RECHECKS.1), ..self }
    }
}

impl Totals {
    pub(super) const fn events(&self) -> EventTotals {
        self.events
    }

    /// The broker has confirmed a message with so many events.
    pub(super) const fn confirm(&mut self, events: u64) {
        self.events.confirmed += events;
        self.events.in_flight += events;
    }

    /// The reply to a confirmed message with so many events has arrived.
    pub(super) const fn settle(&mut self, events: u64) {
        self.events.in_flight -= events;
        self.events.settled += events;
    }

    /// The reply to a confirmed message with so many events was lost, and the message is not kept.
    pub(super) const fn forget(&mut self, events: u64) {
        self.events.in_flight -= events;
        self.events.forgotten += events;
    }

    /// Reserves capacity for keeping a message with a body of so many bytes.
    pub(super) const fn reserve(&mut self, bytes: usize) -> Result<(), KeptFull> {
        if self.kept >= KEPT_MAX || self.kept_bytes + bytes > KEPT_BYTES_MAX {
            return Err(KeptFull);
        }
        self.kept += 1;
        self.kept_bytes += bytes;
        Ok(())
    }

    /// Releases the capacity of a message that is not kept any longer.
    pub(super) const fn release(&mut self, bytes: usize) {
        self.kept -= 1;
        self.kept_bytes -= bytes;
    }

    /// The reply to a confirmed message was lost. Capacity for keeping it is reserved.
    pub(super) fn add_unreplied(&mut self, meta: Arc<BatchMeta>, body: Bytes, now: Instant) {
        self.insert(UnrepliedMessage {
            meta,
            body,
            first_checked: None,
            check_at: now,
            wait: RECHECKS.0,
            settled: 0,
            stage: CheckStage::Unchecked,
        });
    }

    /// A message that is to be checked now.
    pub(super) fn next_due(&self, now: Instant) -> Option<UnrepliedMessage> {
        let (_, message) = self.unreplied.first_key_value()?;
        (message.check_at <= now).then(|| message.clone())
    }

    /// A check of a message had no reply.
    pub(super) fn postpone(&mut self, message: &UnrepliedMessage, now: Instant) {
        if let Some(message) = self.unreplied.remove(&message.key()) {
            self.insert(message.after_wait(now));
        }
    }

    /// Records that a check found so many events of a message settled. Returns the number of its events that became
    /// unaccounted.
    pub(super) fn record_check(&mut self, message: &UnrepliedMessage, settled: u64, now: Instant) -> u64 {
        let Some(mut message) = self.unreplied.remove(&message.key()) else { return 0 };
        // What was found settled stays so.
        let newly_settled = settled.saturating_sub(message.settled).min(message.unsettled());
        message.settled += newly_settled;
        *self.number_of(message.stage) -= newly_settled;
        self.events.settled += newly_settled;
        let unsettled = message.unsettled();
        if unsettled == 0 {
            self.release(message.body.len());
            return 0;
        }
        message.first_checked.get_or_insert(now);
        if message.stage == CheckStage::Unchecked {
            self.insert(UnrepliedMessage {
                stage: CheckStage::Suspect,
                check_at: now + SECOND_CHECK,
                ..message
            });
            return 0;
        }
        let unaccounted = if message.stage == CheckStage::Suspect { unsettled } else { 0 };
        self.events.in_flight -= unaccounted;
        self.events.unaccounted += unaccounted;
        self.insert(UnrepliedMessage { stage: CheckStage::Unaccounted, ..message }.after_wait(now));
        unaccounted
    }

    /// Forgets the messages that have been checked for long enough. Returns the number of their events without a result.
    pub(super) fn forget_old(&mut self, now: Instant) -> u64 {
        let is_old =
            |message: &UnrepliedMessage| message.first_checked.is_some_and(|at| at + CHECKED_FOR <= now);
        let old: Vec<_> = self.unreplied.extract_if(.., |_, message| is_old(message)).collect();
        let before = self.events.forgotten;
        for (_, message) in old {
            *self.number_of(message.stage) -= message.unsettled();
            self.events.forgotten += message.unsettled();
            self.release(message.body.len());
        }
        self.events.forgotten - before
    }

    /// The number in which the unsettled events of a message count.
    const fn number_of(&mut self, stage: CheckStage) -> &mut u64 {
        match stage {
            CheckStage::Unchecked | CheckStage::Suspect => &mut self.events.in_flight,
            CheckStage::Unaccounted => &mut self.events.unaccounted,
        }
    }

    fn insert(&mut self, message: UnrepliedMessage) {
        self.unreplied.insert(message.key(), message);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::auth::ApiKey;
    use common::clock;

    /// The metadata of a message with so many events.
    pub(in super::super) fn meta(events: u16) -> Arc<BatchMeta> {
        Arc::new(BatchMeta {
            request_id: Uuid::now_v7(),
            caller: ApiKey::for_tests().caller,
            published_at: clock::now(),
            events,
            traceparent: None,
            parts: Vec::new(),
            check_of: None,
        })
    }

    /// Accounts to which a confirmed message of so many events without a reply is added.
    fn add(totals: &mut Totals, events: u16, now: Instant) {
        let body = Bytes::from_static(b"body");
        totals.confirm(u64::from(events));
        totals.reserve(body.len()).unwrap();
        totals.add_unreplied(meta(events), body, now);
    }

    fn with_unreplied(events: u16, now: Instant) -> Totals {
        let mut totals = Totals::default();
        add(&mut totals, events, now);
        totals
    }

    /// Checks the message that is due, and returns how many of its events became unaccounted.
    fn check(totals: &mut Totals, settled: u64, now: Instant) -> u64 {
        let due = totals.next_due(now).unwrap();
        totals.record_check(&due, settled, now)
    }

    /// Settled, in flight, unaccounted and forgotten. Asserts that their sum was confirmed.
    fn numbers(totals: &Totals) -> [u64; 4] {
        let EventTotals { confirmed, settled, in_flight, unaccounted, forgotten } = totals.events();
        let numbers = [settled, in_flight, unaccounted, forgotten];
        assert_eq!(confirmed, numbers.iter().sum::<u64>());
        numbers
    }

    #[test]
    fn events_are_in_flight_until_their_reply() {
        let mut totals = Totals::default();
        totals.confirm(3);
        totals.confirm(4);
        assert_eq!(numbers(&totals), [0, 7, 0, 0]);
        totals.settle(3);
        assert_eq!(numbers(&totals), [3, 4, 0, 0]);
    }

    #[test]
    fn a_check_takes_the_place_of_a_lost_reply() {
        let now = Instant::now();
        let mut totals = with_unreplied(5, now);
        assert_eq!(numbers(&totals), [0, 5, 0, 0]);
        assert_eq!(check(&mut totals, 5, now), 0);
        assert_eq!(numbers(&totals), [5, 0, 0, 0]);
        assert_eq!((totals.unreplied.len(), totals.kept, totals.kept_bytes), (0, 0, 0));
    }

    #[test]
    fn events_are_unaccounted_from_the_second_check_on_until_one_finds_them() {
        let mut now = Instant::now();
        let mut totals = with_unreplied(5, now);
        assert_eq!(check(&mut totals, 3, now), 0);
        assert_eq!(numbers(&totals), [3, 2, 0, 0]);
        assert!(totals.next_due(now).is_none());
        now += SECOND_CHECK;
        assert_eq!(check(&mut totals, 3, now), 2);
        assert_eq!(numbers(&totals), [3, 0, 2, 0]);
        now += RECHECKS.0;
        assert_eq!(check(&mut totals, 0, now), 0);
        assert_eq!(numbers(&totals), [3, 0, 2, 0], "what is settled stays settled");
        assert!(totals.next_due(now + RECHECKS.0).is_none());
        now += RECHECKS.0 * 2;
        assert_eq!(check(&mut totals, 5, now), 0);
        assert_eq!(numbers(&totals), [5, 0, 0, 0]);
    }

    #[test]
    fn a_message_whose_check_has_no_reply_comes_after_the_others() {
        let now = Instant::now();
        let mut totals = with_unreplied(1, now);
        let first = totals.next_due(now).unwrap();
        totals.postpone(&first, now);
        assert!(totals.next_due(now).is_none());
        add(&mut totals, 2, now);
        assert_eq!(totals.next_due(now).map(|message| message.unsettled()), Some(2));
        assert_eq!(check(&mut totals, 2, now), 0);
        assert_eq!(totals.next_due(now + RECHECKS.0).map(|message| message.unsettled()), Some(1));
    }

    #[test]
    fn messages_are_forgotten_an_hour_after_their_first_check() {
        let now = Instant::now();
        let mut totals = with_unreplied(5, now);
        check(&mut totals, 3, now);
        check(&mut totals, 3, now + SECOND_CHECK);
        add(&mut totals, 3, now);
        assert_eq!(totals.forget_old(now + CHECKED_FOR - Duration::from_millis(1)), 0);
        assert_eq!(totals.forget_old(now + CHECKED_FOR), 2);
        assert_eq!(numbers(&totals), [3, 3, 0, 2], "a message that could not be checked stays");
        let later = now + CHECKED_FOR;
        check(&mut totals, 0, later);
        assert_eq!(totals.forget_old(later + CHECKED_FOR), 3);
        assert_eq!(numbers(&totals), [3, 0, 0, 5]);
        assert_eq!((totals.kept, totals.kept_bytes), (0, 0));
    }

    #[test]
    fn the_kept_messages_and_their_bytes_are_bounded() {
        let mut totals = Totals::default();
        assert_eq!(totals.reserve(KEPT_BYTES_MAX), Ok(()));
        assert_eq!(totals.reserve(1), Err(KeptFull));
        for _ in 1..KEPT_MAX {
            assert_eq!(totals.reserve(0), Ok(()));
        }
        assert_eq!(totals.reserve(0), Err(KeptFull));
        totals.release(KEPT_BYTES_MAX);
        assert_eq!(totals.reserve(1), Ok(()));
    }

    #[test]
    fn events_of_a_message_that_is_not_kept_are_forgotten() {
        let mut totals = Totals::default();
        totals.confirm(3);
        totals.forget(3);
        assert_eq!(numbers(&totals), [0, 0, 0, 3]);
    }
}
