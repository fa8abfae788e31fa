use super::*;
use crate::store::Target;

const SLOT: i16 = 3;

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn delivery(tenant: u128, subscription: u128, number: i64) -> Delivery {
    let slug = "acme".to_owned();
    Delivery {
        tenant_id: id(tenant),
        subscription_id: id(subscription),
        number,
        delivery_id: id(subscription << 64 | u128::from(number.unsigned_abs())),
        event_id: id(0),
        attempts: 0,
        attempts_before_replay: 0,
        event: None,
        target: Target { slug, url_sealed: Vec::new(), sealed: Vec::new(), is_paused: false, is_removed: false },
    }
}

/// What is due, with a clock.
struct Fixture {
    due: DueDeliveries,
    now: Instant,
}

impl Fixture {
    fn new(most: usize) -> Self {
        Self { due: DueDeliveries::new(most), now: Instant::now() }
    }

    /// Offers that many deliveries with numbers from `first` on; returns the attempts that begin.
    fn offer(&mut self, tenant: u128, subscription: u128, numbers: std::ops::Range<i64>) -> Vec<u64> {
        let offered =
            numbers.filter_map(|number| self.due.offer(delivery(tenant, subscription, number), SLOT, self.now));
        offered.map(|started| started.attempt).collect()
    }

    /// Ends attempts after that time, and returns those that begin then.
    fn finish(&mut self, attempts: &[u64], took: Duration, has_responded: bool) -> Vec<Started> {
        self.now += took;
        for attempt in attempts {
            self.due.finish(*attempt, has_responded, self.now);
        }
        self.due.next(self.now)
    }

    fn respond(&mut self, attempts: &[u64]) -> Vec<Started> {
        self.finish(attempts, Duration::from_millis(5), true)
    }

    /// A receiver that has responded promptly, whose limit is the highest.
    fn make_prompt(&mut self, tenant: u128, subscription: u128) {
        for number in 1_000..1_000 + LIMIT_MAX as i64 {
            let begun = self.offer(tenant, subscription, number..number + 1);
            self.respond(&begun);
            self.due.release(id(subscription), number);
        }
    }
}

#[test]
fn a_subscription_begins_with_few_attempts_and_gets_one_more_with_each_response() {
    let mut fixture = Fixture::new(256);
    let begun = fixture.offer(1, 11, 1..10);
    assert_eq!(begun.len(), FIRST_LIMIT);
    fixture.respond(&begun);
    assert_eq!(fixture.offer(1, 11, 3..40).len(), FIRST_LIMIT + 2);
    let mut fixture = Fixture::new(256);
    fixture.make_prompt(1, 11);
    let begun = fixture.offer(1, 11, 1..100);
    assert_eq!(begun.len(), LIMIT_MAX);
    fixture.due.close(|_| false);
    fixture.finish(&begun, Duration::from_secs(10), false);
    assert_eq!(fixture.offer(1, 11, 200..210).len(), 1, "after an attempt without a response");
}

#[test]
fn new_and_slow_receivers_leave_half_to_prompt_ones_and_half_of_that_to_other_tenants() {
    let mut fixture = Fixture::new(32);
    fixture.make_prompt(1, 11);
    // Each of them gets two attempts as long as the tenant leaves as many to others.
    let hanging: usize = (100..140).map(|subscription| fixture.offer(1, subscription, 1..3).len()).sum();
    assert_eq!(hanging, 8);
    assert_eq!(fixture.offer(2, 21, 1..2).len(), 1, "a new receiver of another tenant");
    assert_eq!(fixture.offer(1, 11, 1..90).len(), 3, "a prompt one of the same tenant: 11 of 32 in all");
    fixture.make_prompt(3, 31);
    assert_eq!(fixture.offer(3, 31, 1..90).len(), 7, "a prompt receiver of another one");
}

#[test]
fn prompt_receivers_that_hang_all_at_once_leave_attempts_to_other_tenants() {
    let mut fixture = Fixture::new(32);
    for subscription in 10..20 {
        fixture.make_prompt(1, subscription);
    }
    let hanging: usize = (10..20).map(|subscription| fixture.offer(1, subscription, 1..40).len()).sum();
    assert_eq!(hanging, 11);
    fixture.now += PROMPT + Duration::from_millis(1);
    fixture.due.tidy(fixture.now);
    assert_eq!((fixture.due.load.slow, fixture.due.room()), (11, 21), "they count as slow before they have ended");
    assert_eq!(fixture.offer(2, 21, 1..2).len(), 1, "a new receiver of another tenant");
}

#[test]
fn what_is_due_is_read_without_what_is_held_and_nothing_is_attempted_twice() {
    let mut fixture = Fixture::new(256);
    let begun = fixture.offer(1, 11, 1..5);
    assert_eq!(begun.len(), 2);
    assert!(fixture.due.next(fixture.now).is_empty());
    assert!(fixture.due.next_reads(9, fixture.now).is_empty(), "both attempts are under way");
    fixture.respond(&begun[..1]);
    let [read] = &fixture.due.next_reads(9, fixture.now)[..] else { panic!("one read") };
    let mut held = read.held.clone();
    held.sort_unstable();
    assert_eq!((read.slot, held), (SLOT, vec![1, 2]));
    fixture.due.release(id(11), 1);
    assert_eq!(fixture.due.held_by_slot(), HashMap::from([(SLOT, 2)]), "it may be read as pending until then");
    assert_eq!(fixture.due.finish_read(read, fixture.now), [(id(11), 1)]);
    assert_eq!(fixture.offer(1, 11, 2..4).len(), 1, "the second one is held until it is on record");
    assert_eq!(fixture.due.held_by_slot(), HashMap::from([(SLOT, 2)]));
    assert_eq!(fixture.due.reading, 0);
}

#[test]
fn a_subscription_is_read_when_its_next_delivery_is_due() {
    let mut fixture = Fixture::new(256);
    let at = fixture.now + Duration::from_secs(30);
    fixture.due.due((id(1), id(11)), SLOT, at, fixture.now);
    assert_eq!(fixture.due.next_due(), Some(at));
    fixture.due.next(fixture.now);
    assert!(fixture.due.next_reads(9, fixture.now).is_empty());
    fixture.now = at;
    fixture.due.next(fixture.now);
    let [read] = &fixture.due.next_reads(9, fixture.now)[..] else { panic!("one read") };
    fixture.due.finish_read(read, fixture.now);
    // Nothing is read of one that cannot be sent, until its time has come.
    let until = fixture.now + Duration::from_secs(30);
    fixture.due.block(id(11), until, fixture.now);
    fixture.due.due((id(1), id(11)), SLOT, fixture.now, fixture.now);
    fixture.due.next(fixture.now);
    assert!(fixture.due.next_reads(9, fixture.now).is_empty());
    assert_eq!(fixture.due.next_due(), Some(until));
}

#[test]
fn a_closed_slot_keeps_only_what_is_attempted_or_to_be_recorded() {
    let mut fixture = Fixture::new(256);
    fixture.make_prompt(1, 11);
    let begun = fixture.offer(1, 11, 1..60);
    assert_eq!((begun.len(), fixture.due.held_by_slot()[&SLOT]), (LIMIT_MAX, 59));
    fixture.due.close(|slot| slot != SLOT);
    assert_eq!(fixture.due.held_by_slot()[&SLOT], LIMIT_MAX);
    assert!(fixture.respond(&begun).is_empty());
    for number in 1..60 {
        fixture.due.release(id(11), number);
    }
    assert_eq!(fixture.due.held_by_slot(), HashMap::new());
}

#[test]
fn waiting_deliveries_of_prompt_receivers_follow_each_other_and_more_are_read_in_time() {
    let mut fixture = Fixture::new(256);
    fixture.make_prompt(1, 11);
    let begun = fixture.offer(1, 11, 1..42);
    assert_eq!(begun.len(), LIMIT_MAX);
    fixture.due.due((id(1), id(11)), SLOT, fixture.now, fixture.now);
    let next = fixture.respond(&begun[..9]);
    assert_eq!(next.len(), 9, "those that waited");
    assert_eq!(fixture.due.next_reads(9, fixture.now).len(), 1);
}

#[test]
fn memory_is_bounded() {
    let mut fixture = Fixture::new(8);
    let later = fixture.now + Duration::from_secs(9);
    for subscription in 0..KNOWN_MAX as u128 + 100 {
        fixture.due.due((id(1), id(subscription)), SLOT, later, fixture.now);
    }
    assert_eq!(fixture.due.receivers.len(), KNOWN_MAX);
    fixture.due.close(|_| false);
    fixture.due.tidy(fixture.now);
    assert!(fixture.due.receivers.is_empty());
    // Two prompt receivers share the room for 32 deliveries, of which one third is left to those that are read next.
    for subscription in [11, 12] {
        fixture.make_prompt(1, subscription);
        fixture.due.due((id(1), id(subscription)), SLOT, fixture.now, fixture.now);
    }
    fixture.due.next(fixture.now);
    let most: Vec<usize> = fixture.due.next_reads(9, fixture.now).iter().map(|read| read.most).collect();
    assert_eq!((most, fixture.due.reading), (vec![10, 10], 20));
}

#[test]
fn what_is_due_takes_the_place_of_what_is_due_last() {
    let mut fixture = Fixture::new(8);
    for subscription in 0..KNOWN_MAX as u64 {
        let later = fixture.now + Duration::from_secs(9 + subscription);
        fixture.due.due((id(1), id(subscription.into())), SLOT, later, fixture.now);
    }
    fixture.due.due((id(2), id(u128::MAX)), SLOT, fixture.now, fixture.now);
    let known = |fixture: &Fixture, subscription| fixture.due.receivers.contains_key(&id(subscription));
    assert!(known(&fixture, u128::MAX) && known(&fixture, 0) && !known(&fixture, KNOWN_MAX as u128 - 1));
    assert_eq!(fixture.due.receivers.len(), KNOWN_MAX);
}

#[test]
fn the_tenant_with_the_most_that_are_due_makes_room_for_another_one() {
    let mut fixture = Fixture::new(8);
    for subscription in 0..KNOWN_MAX as u128 + 1 {
        fixture.due.due((id(1), id(subscription)), SLOT, fixture.now, fixture.now);
    }
    fixture.due.due((id(2), id(u128::MAX)), SLOT, fixture.now, fixture.now);
    let known = |subscription| fixture.due.receivers.contains_key(&id(subscription));
    let last = KNOWN_MAX as u128 - 1;
    assert!(known(u128::MAX) && known(last - 1) && !known(last) && !known(last + 1));
    fixture.due.next(fixture.now);
    let reads = fixture.due.next_reads(9, fixture.now);
    assert!(reads.iter().any(|read| read.subscription_id == id(u128::MAX)), "{reads:?}");
}

#[test]
fn deliveries_that_cannot_be_recorded_count_as_attempts_of_their_tenant_until_they_are_released() {
    let mut fixture = Fixture::new(30);
    fixture.make_prompt(1, 11);
    let mut locked = 0;
    // Each attempt ends at once, and none of them can be recorded.
    while locked < 30
        && let [attempt] = fixture.offer(1, 11, locked..locked + 1)[..]
    {
        fixture.respond(&[attempt]);
        fixture.due.lock(id(11), locked);
        fixture.due.lock(id(11), locked);
        locked += 1;
    }
    assert_eq!(locked, 15, "half of all");
    fixture.make_prompt(2, 21);
    assert_eq!(fixture.offer(2, 21, 1..31).len(), 10, "as if nothing were locked");
    for number in 0..locked {
        fixture.due.release(id(11), number);
    }
    assert_eq!(fixture.due.load.all, 10);
    let started = fixture.due.next(fixture.now);
    assert!(started.iter().any(|one| one.delivery.tenant_id == id(1)), "what waits meanwhile: {started:?}");
}

#[test]
fn deliveries_that_ended_before_any_was_found_to_be_locked_take_nothing_from_others() {
    let mut fixture = Fixture::new(16);
    fixture.make_prompt(1, 11);
    for number in 0..40 {
        let begun = fixture.offer(1, 11, number..number + 1);
        fixture.respond(&begun);
    }
    (0..40).for_each(|number| fixture.due.lock(id(11), number));
    assert_eq!(fixture.offer(1, 11, 40..41).len(), 0);
    assert_eq!(fixture.offer(2, 21, 1..2).len(), 1);
}

#[test]
fn what_has_waited_for_too_long_is_read_again_before_its_attempt() {
    let mut fixture = Fixture::new(256);
    fixture.make_prompt(1, 11);
    let begun = fixture.offer(1, 11, 1..100);
    assert_eq!((begun.len(), fixture.due.waiting), (LIMIT_MAX, 99 - LIMIT_MAX));
    fixture.now += WAIT_MAX;
    fixture.due.tidy(fixture.now);
    assert_eq!(fixture.due.waiting, 99 - LIMIT_MAX);
    fixture.now += Duration::from_millis(1);
    fixture.due.tidy(fixture.now);
    assert_eq!((fixture.due.waiting, fixture.due.held), (0, LIMIT_MAX));
    assert!(fixture.finish(&begun, Duration::ZERO, false).is_empty(), "its subscription may be paused by now");
    let reads = fixture.due.next_reads(10, fixture.now);
    assert_eq!(reads.iter().map(|read| (read.subscription_id, read.most)).collect::<Vec<_>>(), [(id(11), 1)]);
}

#[test]
fn no_attempt_begins_while_many_results_are_not_on_record() {
    let most = 8;
    let mut fixture = Fixture::new(most);
    let attempt = |fixture: &mut Fixture, tenant: u128, number: i64| {
        let begun = fixture.offer(tenant, tenant * 10, number..number + 1);
        fixture.respond(&begun);
        begun.len()
    };
    for number in 1..=(HELD * most) as i64 {
        assert_eq!(attempt(&mut fixture, 1, number), 1, "{number}");
    }
    assert_eq!(attempt(&mut fixture, 1, 100), 0);
    fixture.due.release(id(10), 1);
    assert_eq!(attempt(&mut fixture, 1, 101), 1);
    for tenant in 2..=(UNRECORDED / HELD) as u128 {
        for number in 1..=(HELD * most) as i64 {
            assert_eq!(attempt(&mut fixture, tenant, number), 1, "another tenant");
        }
    }
    assert_eq!(attempt(&mut fixture, 9, 1), 0, "too many of all tenants");
    // Locked rows of one tenant stop no other one.
    fixture.due.lock(id(10), 2);
    assert_eq!(attempt(&mut fixture, 9, 2), 1);
}

#[test]
fn a_blocked_subscription_is_neither_read_nor_attempted() {
    let mut fixture = Fixture::new(256);
    fixture.make_prompt(1, 11);
    let begun = fixture.offer(1, 11, 1..100);
    fixture.due.due((id(1), id(11)), SLOT, fixture.now, fixture.now);
    let until = fixture.now + Duration::from_secs(30);
    fixture.due.block(id(11), until, fixture.now);
    assert!(fixture.respond(&begun).is_empty() && fixture.due.next_reads(10, fixture.now).is_empty());
    assert_eq!((fixture.due.held, fixture.due.next_due()), (LIMIT_MAX, Some(until)));
    fixture.now = until;
    assert!(fixture.due.next(until).is_empty());
    assert_eq!(fixture.due.next_reads(10, until).len(), 1);
}
