//! Lanes, driven by hand: jobs are numbers, time is a value.

use super::*;
use proptest::prelude::*;

const BOUNDS: Bounds = Bounds { in_all: 8, each: 4, open: 100 };

struct World {
    lanes: Lanes<u32>,
    congestion: Congestion,
    now: Instant,
    running: Vec<(Uuid, u32, Instant)>,
}

fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

impl World {
    fn new(bounds: Bounds) -> Self {
        let congestion = Congestion::default();
        Self {
            lanes: Lanes::new(bounds, congestion.clone()),
            congestion,
            now: Instant::now(),
            running: Vec::new(),
        }
    }

    fn pass(&mut self, milliseconds: u64) {
        self.now += Duration::from_millis(milliseconds);
    }

    /// Offers jobs to a lane; how many were handed back.
    fn offer(&mut self, lane: Uuid, jobs: std::ops::Range<u32>) -> usize {
        jobs.filter(|job| self.lanes.admit(lane, *job, self.now).is_err()).count()
    }

    fn start(&mut self) -> Vec<u32> {
        let started = self.lanes.start(self.now);
        self.running.extend(started.iter().map(|(id, job)| (*id, *job, self.now)));
        started.into_iter().map(|(_, job)| job).collect()
    }

    /// Ends every attempt of a lane.
    fn finish(&mut self, lane: Uuid, answer: Answer) {
        let (ended, rest) = std::mem::take(&mut self.running).into_iter().partition(|(id, ..)| *id == lane);
        self.running = rest;
        for (id, _, began) in ended {
            self.lanes.finish(id, began, answer, self.now);
        }
    }

    /// Lanes that are known to answer soon.
    fn prove(&mut self, lanes: std::ops::RangeInclusive<u128>) {
        for lane in lanes.map(id) {
            self.offer(lane, 0..1);
            self.start();
            self.pass(1);
            self.finish(lane, Answer::Came);
        }
    }

    fn of(&self, lane: Uuid) -> usize {
        self.running.iter().filter(|(id, ..)| *id == lane).count()
    }
}

#[test]
fn a_lane_has_its_bound_and_all_together_have_theirs() {
    let mut world = World::new(BOUNDS);
    world.prove(1..=3);
    assert_eq!(world.offer(id(1), 0..20) + world.offer(id(2), 20..40) + world.offer(id(3), 40..60), 0);
    assert_eq!(world.start().len(), 7, "an eighth is kept for lanes with nothing under way");
    assert!((1..=3).all(|lane| world.of(id(lane)) <= 4));
    assert!(world.start().is_empty());
    world.finish(id(1), Answer::Came);
    assert!(!world.start().is_empty());
    assert!(world.running.len() <= 8);
}

#[test]
fn known_receivers_that_hang_leave_room_for_those_that_do_not() {
    let mut world = World::new(Bounds { in_all: 16, each: 8, open: 100 });
    world.prove(1..=4);
    world.offer(id(1), 0..8);
    world.offer(id(2), 8..16);
    assert_eq!(world.start().len(), 14);
    world.pass(100);
    world.offer(id(3), 16..18);
    world.offer(id(4), 18..20);
    assert_eq!(world.start().len(), 2, "one for each that has nothing under way");
    world.pass(1);
    world.finish(id(3), Answer::Came);
    assert_eq!(world.start().len(), 1);
}

#[test]
fn lanes_start_in_turn() {
    let mut world = World::new(Bounds { in_all: 12, ..BOUNDS });
    world.prove(1..=2);
    world.offer(id(1), 0..4);
    world.offer(id(2), 4..8);
    assert_eq!(world.start(), [0, 4, 1, 5, 2, 6, 3, 7]);
}

#[test]
fn a_fast_receiver_keeps_a_long_backlog() {
    let mut world = World::new(Bounds { open: 10_000, ..BOUNDS });
    for round in 0..100 {
        assert_eq!(world.offer(id(1), round * 10..round * 10 + 10), 0, "round {round}");
        world.start();
        world.pass(1);
        world.finish(id(1), Answer::Came);
    }
    assert!(world.lanes.evict(world.now).is_empty());
}

#[test]
fn a_receiver_that_does_not_answer_is_handed_its_backlog_back() {
    let mut world = World::new(BOUNDS);
    world.prove(1..=1);
    world.offer(id(1), 0..40);
    assert_eq!(world.start().len(), 4);
    world.pass(300);
    let away = world.lanes.evict(world.now);
    assert!(away.len() > 20, "{}", away.len());
    assert!(away.iter().all(|away| away.wait >= AWAY.0 && away.wait <= AWAY.1));
    assert_eq!(world.congestion.full(), [id(1)]);
    world.pass(1_000);
    assert_eq!(world.offer(id(1), 50..60), 10, "nothing more is taken while it doesn't answer");
    assert_eq!(world.offer(id(2), 60..61), 0, "others are");
}

#[test]
fn a_suspect_lane_has_a_small_share_until_it_answers() {
    let mut world = World::new(Bounds { in_all: 100, each: 16, open: 1_000 });
    world.prove(1..=1);
    world.offer(id(1), 0..16);
    assert_eq!(world.start().len(), 16);
    world.pass(200);
    world.finish(id(1), Answer::Failed);
    world.offer(id(1), 20..40);
    assert_eq!(world.start().len(), 2);
    world.pass(5);
    world.finish(id(1), Answer::Came);
    world.offer(id(1), 40..60);
    assert!(world.start().len() > 2, "it has recovered");
    assert!(world.congestion.full().is_empty());
}

#[test]
fn slow_lanes_and_new_ones_have_their_parts() {
    let mut world = World::new(Bounds { in_all: 8, each: 2, open: 1_000 });
    for lane in 1..=8 {
        world.offer(id(lane), 0..1);
        world.start();
        world.pass(1_500);
        world.finish(id(lane), Answer::Failed);
    }
    for lane in 1..=8 {
        world.offer(id(lane), 0..1);
    }
    assert_eq!(world.start().len(), 3, "three eighths of the attempts for those who were slow");
    for lane in 9..=12 {
        world.offer(id(lane), 0..1);
    }
    assert_eq!(world.start().len(), 1, "an eighth for those of whom nothing is known");
    for lane in 13..=14 {
        world
            .lanes
            .lanes
            .insert(id(lane), Lane { mean: Some(Duration::from_millis(1)), ..Lane::new(world.now) });
        world.offer(id(lane), 0..2);
    }
    assert_eq!(world.start().len(), 3, "the rest for those who answer soon");
    world.finish(id(1), Answer::Came);
    assert_eq!(world.start().len(), 1, "the next of the slow");
}

#[test]
fn an_attempt_that_takes_longer_than_usual_makes_its_lane_slow_at_once() {
    let mut world = World::new(Bounds { in_all: 100, each: 16, open: 1_000 });
    world.prove(1..=1);
    world.offer(id(1), 0..1);
    world.start();
    world.pass(300);
    world.offer(id(1), 1..2);
    world.start();
    assert_eq!(world.lanes.lanes[&id(1)].class(world.now), Class::Slow);
    assert_eq!(world.of(id(1)), 2, "its share is small now");
    world.offer(id(1), 2..9);
    assert!(world.start().is_empty());
}

#[test]
fn a_lane_that_has_recovered_is_told_to_the_relay() {
    let mut world = World::new(BOUNDS);
    world.prove(1..=1);
    world.offer(id(1), 0..4);
    world.start();
    world.pass(2_000);
    assert_eq!(world.offer(id(1), 4..5), 1);
    assert_eq!((world.congestion.full(), world.congestion.recovered()), (vec![id(1)], vec![]));
    world.finish(id(1), Answer::Came);
    world.offer(id(1), 5..6);
    world.start();
    world.finish(id(1), Answer::Came);
    assert_eq!((world.congestion.full(), world.congestion.recovered()), (vec![], vec![id(1)]));
    world.congestion.is_over([id(1)]);
    assert!(world.congestion.recovered().is_empty());
}

#[test]
fn what_cannot_be_started_for_lanes_like_its_own_does_not_wait_for_ever() {
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
fn a_lane_that_gave_everything_back_is_not_full() {
    let mut world = World::new(Bounds { in_all: 8, each: 2, open: 1_000 });
    world.prove(1..=1);
    world.lanes.lanes.get_mut(&id(1)).expect("a lane").mean = Some(Duration::from_secs(2));
    world.lanes.running_slow = 3;
    assert_eq!(world.offer(id(1), 0..3), 1, "two now, the third in two seconds");
    assert_eq!(world.congestion.full(), [id(1)]);
    assert!(world.start().is_empty(), "others have what slow lanes may have");
    world.pass(1_100);
    assert_eq!(world.lanes.evict(world.now).len(), 2);
    assert!(world.congestion.full().is_empty());
    world.lanes.running_slow = 0;
}

#[test]
fn what_waits_is_given_back_at_the_end() {
    let mut world = World::new(BOUNDS);
    world.prove(1..=1);
    world.offer(id(1), 0..10);
    world.start();
    assert_eq!(world.lanes.close().len(), 6);
    world.finish(id(1), Answer::Came);
    assert!(world.start().is_empty());
}

#[test]
fn an_idle_lane_is_forgotten() {
    let mut world = World::new(BOUNDS);
    world.offer(id(1), 0..1);
    world.start();
    world.finish(id(1), Answer::Came);
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
                    world.finish(id(lane), if came { Answer::Came } else { Answer::Failed });
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
            (0..4).for_each(|lane| world.finish(id(lane), Answer::Came));
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
