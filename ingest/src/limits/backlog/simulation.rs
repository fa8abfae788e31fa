//! Simulates the backlog, with a clock of its own: the limit follows the rate of the worker while some tenants send as much as
//! they may and one sends little.

use super::rate::Rate;
use super::state::{CountedRequest, State};
use common::model::TenantId;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

const TARGET: Duration = Duration::from_millis(600);
const FIRST_RATE: f64 = 16_000.0;
const TICK: Duration = Duration::from_millis(1);
/// Maximum number of units that the worker applies at once.
const UNIT_OF_WORK: u64 = 256;
/// What publishing and replying take beside the work.
const LATENCY: Duration = Duration::from_millis(5);
/// The tenant that sends one event at a time, a tenth of a second after the reply to the last one.
const QUIET: u128 = 1_000;
const PAUSE: Duration = Duration::from_millis(100);

/// A request that was admitted, and when.
type Waiting = (CountedRequest, Instant);

struct Simulation {
    state: State,
    now: Instant,
    /// Units that the worker applies in a second.
    rate: f64,
    /// The number of tenants that burst, and the units of each of their requests.
    bursting: u128,
    size: u64,
    queue: VecDeque<Waiting>,
    in_work: Vec<Waiting>,
    done_at: Instant,
    quiet_at: Option<Instant>,
    measured: Measured,
}

/// Measurements since a point in time.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    applied: u64,
    longest: Duration,
    longest_quiet: Duration,
    quiet: u32,
    quiet_refused: u32,
}

impl Simulation {
    fn new(rate: f64, bursting: u128, size: u64) -> Self {
        let start = Instant::now();
        Self {
            state: State::new(Rate::new(FIRST_RATE, TARGET, start)),
            now: start,
            rate,
            bursting,
            size,
            queue: VecDeque::new(),
            in_work: Vec::new(),
            done_at: start,
            quiet_at: Some(start),
            measured: Measured::default(),
        }
    }

    /// Runs for so many seconds and returns the measurements of the requests that were replied to.
    fn run(&mut self, seconds: f64) -> Measured {
        self.measured = Measured::default();
        let end = self.now + Duration::from_secs_f64(seconds);
        while self.now < end {
            self.now += TICK;
            self.work();
            self.send_quiet();
            for of in 0..self.bursting {
                while self.send(of, self.size) {}
            }
        }
        self.measured
    }

    /// Runs until all that waits now has been replied to.
    fn drain(&mut self) {
        let last = self.queue.back().or(self.in_work.last()).map_or(0, |(admitted, _)| admitted.number);
        let is_waiting = |(admitted, _): &Waiting| admitted.number <= last;
        while self.queue.front().is_some_and(is_waiting) || self.in_work.first().is_some_and(is_waiting) {
            self.run(0.1);
        }
    }

    fn send(&mut self, of: u128, units: u64) -> bool {
        let admitted = self.state.admit(TenantId(Uuid::from_u128(of)), units, self.now);
        self.queue.extend(admitted.ok().map(|admitted| (admitted, self.now)));
        admitted.is_ok()
    }

    fn send_quiet(&mut self) {
        if self.quiet_at.is_some_and(|at| at <= self.now) {
            self.measured.quiet += 1;
            let is_admitted = self.send(QUIET, 1);
            self.measured.quiet_refused += u32::from(!is_admitted);
            self.quiet_at = (!is_admitted).then_some(self.now + PAUSE);
        }
    }

    /// Replies to what was applied, and takes the next unit of work.
    fn work(&mut self) {
        if self.done_at > self.now {
            return;
        }
        for (admitted, since) in std::mem::take(&mut self.in_work) {
            self.state.replied(&admitted, self.now);
            self.state.release(&admitted);
            let waited = self.now - since;
            self.measured.applied += admitted.units;
            self.measured.longest = self.measured.longest.max(waited);
            if admitted.tenant == TenantId(Uuid::from_u128(QUIET)) {
                self.measured.longest_quiet = self.measured.longest_quiet.max(waited);
                self.quiet_at = Some(self.now + PAUSE);
            }
        }
        let mut units = 0;
        while let Some((admitted, _)) = self.queue.front().filter(|(_, since)| *since + LATENCY <= self.now) {
            units += admitted.units;
            if units > UNIT_OF_WORK && !self.in_work.is_empty() {
                units -= admitted.units;
                break;
            }
            self.in_work.extend(self.queue.pop_front());
        }
        // The next unit of work begins when the last one ended, because a fast worker needs less than a tick for one.
        let begun = if units > 0 { self.done_at.max(self.now - TICK) } else { self.now };
        self.done_at = begun + Duration::from_secs_f64(units as f64 / self.rate);
    }

    fn assert_limit(&self, what: &str) {
        let (limit, expected) = (self.state.rate.limit(), self.rate * TARGET.as_secs_f64());
        // The worker replies to all units of a unit of work at the same time.
        assert!(limit <= expected * 1.1 + 10.0, "{what}: {limit} instead of {expected}");
    }

    /// Asserts what must hold at any rate.
    fn assert_fair(&mut self, what: &str) {
        let seen = self.run(10.0);
        let (rate, limit) = (self.rate, self.state.rate.limit());
        let place = format!("{what}, {rate} units a second, a limit of {limit}: {seen:?}");
        // What is applied at once is replied to at once.
        let at_once = (UNIT_OF_WORK.max(self.size) as f64).min(limit) / rate;
        assert!(seen.longest.as_secs_f64() <= TARGET.as_secs_f64() * 1.5 + at_once, "{place}");
        assert!(seen.longest_quiet <= Duration::from_millis(1_100), "{place}");
        assert!(seen.quiet > 5 && seen.quiet_refused == 0, "{place}");
        assert!(seen.applied as f64 >= rate * 10.0 * 0.9, "the worker was idle: {place}");
    }
}

const RATES: [(f64, u64); 6] =
    [(100.0, 1), (400.0, 5), (1_000.0, 10), (4_000.0, 100), (16_000.0, 100), (50_000.0, 100)];

#[test]
fn the_wait_converges_to_the_target_at_any_rate() {
    for (rate, size) in RATES {
        for bursting in [1, 20] {
            let mut simulation = Simulation::new(rate, bursting, size);
            simulation.run(3.0);
            simulation.assert_limit("three seconds after the start");
            simulation.drain();
            simulation.run(2.0);
            simulation.assert_fair("when what was admitted at first is applied");
        }
    }
}

#[test]
fn the_wait_converges_again_when_the_rate_changes() {
    for (rate, size) in RATES {
        let mut simulation = Simulation::new(16_000.0, 20, size);
        simulation.run(2.0);
        simulation.rate = rate;
        // The slowest worker takes 2.6 seconds for what it applies at once.
        simulation.run(6.0);
        simulation.assert_limit("six seconds after the change");
        simulation.drain();
        simulation.run(2.0);
        simulation.assert_fair("when what was admitted before the change is applied");
        simulation.rate = 16_000.0;
        simulation.run(3.0);
        simulation.assert_fair("after the worker is as fast as before");
    }
}

#[test]
fn work_that_is_applied_faster_than_ever_lets_a_tenant_hold_no_more() {
    let mut simulation = Simulation::new(200_000.0, 1, 100);
    simulation.run(10.0);
    let (limit, held) = (simulation.state.rate.limit(), simulation.state.units());
    assert!(limit <= FIRST_RATE * TARGET.as_secs_f64() * 4.0, "{limit}");
    assert!(held as f64 <= FIRST_RATE * TARGET.as_secs_f64() / 2.0 + 100.0, "{held}");
}
