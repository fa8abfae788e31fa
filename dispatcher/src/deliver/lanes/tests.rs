//! Tests of the lanes. Jobs are numbers, and the tests set the time.

use super::*;
use proptest::prelude::*;

const BOUNDS: LaneBounds = LaneBounds { in_all: 8, each: 4, unacknowledged: 100 };

struct World {
    lanes: SubscriptionLanes<u32>,
    congestion: Congestion,
    now: Instant,
    running: Vec<(Uuid, u32, Instant)>,
}

fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

impl World {
    fn new(bounds: LaneBounds) -> Self {
        let congestion = Congestion::default();
        Self {
            lanes: SubscriptionLanes::new(bounds, congestion.clone()),
            congestion,
            now: Instant::now(),
            running: Vec::new(),
        }
    }

    fn pass(&mut self, milliseconds: u64) {
        self.now += Duration::from_millis(milliseconds);
    }

    /// Offers jobs to a lane; returns how many it did not accept.
    fn offer(&mut self, lane: Uuid, jobs: std::ops::Range<u32>) -> usize {
        jobs.filter(|job| self.lanes.admit(lane, *job, self.now).is_err()).count()
    }

    fn start(&mut self) -> Vec<u32> {
        let started = self.lanes.start(self.now);
        self.running.extend(started.iter().map(|(id, job)| (*id, *job, self.now)));
        started.into_iter().map(|(_, job)| job).collect()
    }

    /// Ends every attempt of a lane.
    fn finish(&mut self, lane: Uuid, responsiveness: Responsiveness) {
        let (ended, rest) = std::mem::take(&mut self.running).into_iter().partition(|(id, ..)| *id == lane);
        self.running = rest;
        for (id, _, began) in ended {
            self.lanes.finish(id, began, responsiveness, self.now);
        }
    }

    /// Makes lanes fast: each completes a short attempt.
    fn make_fast(&mut self, lanes: std::ops::RangeInclusive<u128>) {
        for lane in lanes.map(id) {
            self.offer(lane, 0..1);
            self.start();
            self.pass(1);
            self.finish(lane, Responsiveness::Responded);
        }
    }

    fn of(&self, lane: Uuid) -> usize {
        self.running.iter().filter(|(id, ..)| *id == lane).count()
    }
}

#[test]
fn attempts_are_bounded_for_each_lane_and_for_all_together() {
    let mut world = World::new(BOUNDS);
    world.make_fast(1..=3);
    assert_eq!(world.offer(id(1), 0..20) + world.offer(id(2), 20..40) + world.offer(id(3), 40..60), 0);
    assert_eq!(world.start().len(), 7, "an eighth is kept for lanes with nothing under way");
    assert!((1..=3).all(|lane| world.of(id(lane)) <= 4));
    assert!(world.start().is_empty());
    world.finish(id(1), Responsiveness::Responded);
    assert!(!world.start().is_empty());
    assert!(world.running.len() <= 8);
}

#[test]
fn receivers_that_hang_do_not_block_the_others() {
    let mut world = World::new(LaneBounds { in_all: 16, each: 8, unacknowledged: 100 });
    world.make_fast(1..=4);
    world.offer(id(1), 0..8);
    world.offer(id(2), 8..16);
    assert_eq!(world.start().len(), 14);
    world.pass(100);
    world.offer(id(3), 16..18);
    world.offer(id(4), 18..20);
    assert_eq!(world.start().len(), 2, "one for each that has nothing under way");
    world.pass(1);
    world.finish(id(3), Responsiveness::Responded);
    assert_eq!(world.start().len(), 1);
}

#[test]
fn lanes_start_jobs_in_round_robin_order() {
    let mut world = World::new(LaneBounds { in_all: 12, ..BOUNDS });
    world.make_fast(1..=2);
    world.offer(id(1), 0..4);
    world.offer(id(2), 4..8);
    assert_eq!(world.start(), [0, 4, 1, 5, 2, 6, 3, 7]);
}

#[test]
fn a_fast_receiver_keeps_a_long_backlog() {
    let mut world = World::new(LaneBounds { unacknowledged: 10_000, ..BOUNDS });
    for round in 0..100 {
        assert_eq!(world.offer(id(1), round * 10..round * 10 + 10), 0, "round {round}");
        world.start();
        world.pass(1);
        world.finish(id(1), Responsiveness::Responded);
    }
    assert!(world.lanes.evict(world.now).is_empty());
}

#[test]
fn jobs_of_an_unresponsive_receiver_are_evicted() {
    let mut world = World::new(BOUNDS);
    world.make_fast(1..=1);
    world.offer(id(1), 0..40);
    assert_eq!(world.start().len(), 4);
    world.pass(300);
    let to_park = world.lanes.evict(world.now);
    assert!(to_park.len() > 20, "{}", to_park.len());
    assert!(to_park.iter().all(|to_park| to_park.wait >= PARK_WAIT.0 && to_park.wait <= PARK_WAIT.1));
    assert_eq!(world.congestion.full(), [id(1)]);
    world.pass(1_000);
    assert_eq!(
        world.offer(id(1), 50..60),
        10,
        "no further job is accepted while the receiver does not respond"
    );
    assert_eq!(world.offer(id(2), 60..61), 0, "other lanes accept jobs");
}

#[test]
fn a_failing_lane_has_a_small_share_until_it_recovers() {
    let mut world = World::new(LaneBounds { in_all: 100, each: 16, unacknowledged: 1_000 });
    world.make_fast(1..=1);
    world.offer(id(1), 0..16);
    assert_eq!(world.start().len(), 16);
    world.pass(200);
    world.finish(id(1), Responsiveness::Unresponsive);
    world.offer(id(1), 20..40);
    assert_eq!(world.start().len(), 2);
    world.pass(5);
    world.finish(id(1), Responsiveness::Responded);
    world.offer(id(1), 40..60);
    assert!(world.start().len() > 2, "it has recovered");
    assert!(world.congestion.full().is_empty());
}

#[test]
fn slow_and_new_lanes_have_limited_shares() {
    let mut world = World::new(LaneBounds { in_all: 8, each: 2, unacknowledged: 1_000 });
    for lane in 1..=8 {
        world.offer(id(lane), 0..1);
        world.start();
        world.pass(1_500);
        world.finish(id(lane), Responsiveness::Unresponsive);
    }
    for lane in 1..=8 {
        world.offer(id(lane), 0..1);
    }
    assert_eq!(world.start().len(), 3, "three eighths of the attempts for slow lanes");
    for lane in 9..=12 {
        world.offer(id(lane), 0..1);
    }
    assert_eq!(world.start().len(), 1, "an eighth for new lanes");
    for lane in 13..=14 {
        world.lanes.lanes.insert(
            id(lane),
            SubscriptionLane { mean: Some(Duration::from_millis(1)), ..SubscriptionLane::new(world.now) },
        );
        world.offer(id(lane), 0..2);
    }
    assert_eq!(world.start().len(), 3, "the rest for fast lanes");
    world.finish(id(1), Responsiveness::Responded);
    assert_eq!(world.start().len(), 1, "the next slow lane");
}

#[test]
fn an_attempt_that_takes_longer_than_usual_makes_its_lane_slow_at_once() {
    let mut world = World::new(LaneBounds { in_all: 100, each: 16, unacknowledged: 1_000 });
    world.make_fast(1..=1);
    world.offer(id(1), 0..1);
    world.start();
    world.pass(300);
    world.offer(id(1), 1..2);
    world.start();
    assert_eq!(world.lanes.lanes[&id(1)].class(world.now), LaneClass::Slow);
    assert_eq!(world.of(id(1)), 2, "its share is small now");
    world.offer(id(1), 2..9);
    assert!(world.start().is_empty());
}

#[test]
fn the_relay_learns_of_recovered_lanes() {
    let mut world = World::new(BOUNDS);
    world.make_fast(1..=1);
    world.offer(id(1), 0..4);
    world.start();
    world.pass(2_000);
    assert_eq!(world.offer(id(1), 4..5), 1);
    assert_eq!((world.congestion.full(), world.congestion.recovered(world.now)), (vec![id(1)], vec![]));
    world.finish(id(1), Responsiveness::Responded);
    world.offer(id(1), 5..6);
    world.start();
    world.finish(id(1), Responsiveness::Responded);
    assert_eq!((world.congestion.full(), world.congestion.recovered(world.now)), (vec![], vec![id(1)]));
    world.now += PARK_WAIT_MAX;
    assert_eq!(world.congestion.recovered(world.now), [id(1)], "its deliveries may still be parked");
    world.pass(1);
    assert!(world.congestion.recovered(world.now).is_empty());
}

#[test]
fn jobs_that_cannot_be_started_are_evicted() {
    let mut world = World::new(BOUNDS);
    for lane in 1..=10 {
        assert_eq!(world.offer(id(lane), 0..5), 0);
    }
    assert_eq!(world.start().len(), 1, "an eighth");
    world.pass(1_500);
    assert_eq!(world.lanes.evict(world.now).len(), 49);
    assert_eq!(world.lanes.waiting, 0);
}

#[test]
fn an_emptied_lane_is_not_full() {
    let mut world = World::new(LaneBounds { in_all: 8, each: 2, unacknowledged: 1_000 });
    world.make_fast(1..=1);
    world.lanes.lanes.get_mut(&id(1)).expect("a lane").mean = Some(Duration::from_secs(2));
    world.lanes.running_slow = 3;
    assert_eq!(world.offer(id(1), 0..3), 1, "two start now, the third would start in two seconds");
    assert_eq!(world.congestion.full(), [id(1)]);
    assert!(world.start().is_empty(), "other slow lanes use their whole share");
    world.pass(1_100);
    assert_eq!(world.lanes.evict(world.now).len(), 2);
    assert_eq!((world.congestion.full(), world.congestion.recovered(world.now)), (vec![], vec![]));
    world.lanes.running_slow = 0;
}

#[test]
fn closing_returns_the_waiting_jobs() {
    let mut world = World::new(BOUNDS);
    world.make_fast(1..=1);
    world.offer(id(1), 0..10);
    world.start();
    assert_eq!(world.lanes.close().len(), 6);
    world.finish(id(1), Responsiveness::Responded);
    assert!(world.start().is_empty());
}

#[test]
fn an_idle_lane_is_forgotten() {
    let mut world = World::new(BOUNDS);
    world.offer(id(1), 0..1);
    world.start();
    world.finish(id(1), Responsiveness::Responded);
    world.now += FORGET_AFTER;
    world.lanes.evict(world.now);
    assert!(world.lanes.lanes.is_empty());
}

#[derive(Clone, Debug)]
enum Step {
    Offer(u128),
    Finish(u128, bool),
    Pass(u64),
    Evict,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4_u128).prop_map(Step::Offer),
        2 => (0..4_u128, any::<bool>()).prop_map(|(lane, came)| Step::Finish(lane, came)),
        1 => (1..3_000_u64).prop_map(Step::Pass),
        1 => Just(Step::Evict),
    ]
}

proptest! {
    #[test]
    fn no_job_is_lost_or_started_twice_and_bounds_hold(steps in prop::collection::vec(step(), 1..200)) {
        let mut world = World::new(BOUNDS);
        let (mut next, mut taken, mut begun, mut back) = (0, 0, Vec::new(), 0);
        for step in steps {
            match step {
                Step::Offer(lane) => {
                    taken += 1 - world.offer(id(lane), next..next + 1);
                    next += 1;
                }
                Step::Finish(lane, came) => {
                    world.finish(id(lane), if came { Responsiveness::Responded } else { Responsiveness::Unresponsive });
                }
                Step::Pass(milliseconds) => world.pass(milliseconds),
                Step::Evict => back += world.lanes.evict(world.now).len(),
            }
            begun.extend(world.start());
            prop_assert!(world.running.len() <= BOUNDS.in_all);
            prop_assert!((0..4).all(|lane| world.of(id(lane)) <= BOUNDS.each));
        }
        // Finishing everything starts everything that still waits.
        for _ in 0..=next {
            (0..4).for_each(|lane| world.finish(id(lane), Responsiveness::Responded));
            begun.extend(world.start());
        }
        begun.sort_unstable();
        let count = begun.len();
        begun.dedup();
        prop_assert_eq!(count, begun.len(), "started twice");
        prop_assert_eq!(count + back, taken, "lost");
        let lanes = &world.lanes;
        prop_assert_eq!((lanes.running, lanes.running_slow, lanes.running_new, lanes.waiting), (0, 0, 0, 0));
    }
}
