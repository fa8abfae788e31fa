//! A lane for each subscription, so that a slow or unavailable receiver delays only its own deliveries (D28). Pure: time is an
//! argument.
//!
//! - The number of concurrent attempts is bounded, for all lanes together and for each lane.
//! - Slow lanes share three eighths of the attempts, new lanes one eighth, and an eighth is reserved for fast lanes without a
//!   running attempt, so that receivers that hang do not block the others. A running attempt that takes much longer than
//!   usual makes its lane slow at once.
//! - A lane accepts only deliveries that it can attempt soon. The others are parked in the database, so that they occupy
//!   neither the queue's head nor the prefetch of this program.
//! - Lanes with waiting deliveries start them in round-robin order.

mod placement;
mod subscription_lane;

pub(super) use placement::Placement;

use super::congestion::Congestion;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use subscription_lane::{LaneClass, STUCK, SubscriptionLane};
use tokio::time::Instant;
use uuid::Uuid;

/// Longest expected wait of a delivery that a lane accepts.
const EXPECTED_WAIT_MAX: Duration = Duration::from_secs(1);
/// The same while more than half of the prefetched messages wait in lanes. With at most this wait a full lane has recovered, and a
/// fast one is placed as such.
const EXPECTED_WAIT_MAX_WHEN_FULL: Duration = Duration::from_millis(100);
/// Shortest and longest time for which a delivery is parked because its lane is full.
const PARK_WAIT: (Duration, Duration) = (Duration::from_secs(1), PARK_WAIT_MAX);
pub(super) const PARK_WAIT_MAX: Duration = Duration::from_secs(60);
/// How long a delivery is parked that could not start, because other lanes use all attempts that its lane could have.
const STARVED_PARK_WAIT: Duration = Duration::from_secs(5);
/// Weight of the newest attempt in a lane's mean duration.
const NEWEST_WEIGHT: f64 = 0.2;
/// Idle time after which a lane is removed.
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// Limits of concurrent attempts and of unacknowledged messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneBounds {
    /// Attempts of all lanes.
    pub in_all: usize,
    /// Attempts of one lane.
    pub each: usize,
    /// Maximum number of unacknowledged messages, of all lanes.
    pub unacknowledged: usize,
}

impl LaneBounds {
    const fn most_slow(&self) -> usize {
        if self.in_all < 3 { 1 } else { self.in_all * 3 / 8 }
    }
}

/// Whether the receiver responded to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Responsiveness {
    /// The receiver sent a status, whichever it was; or nothing was sent, which says nothing about the receiver.
    Responded,
    /// It did not respond, or could not be reached.
    Unresponsive,
}

/// A job that its lane does not accept, and for how long to park it.
#[derive(Debug)]
pub(super) struct JobToPark<J> {
    pub job: J,
    pub wait: Duration,
}

/// The lanes of all subscriptions.
#[derive(Debug)]
pub(super) struct SubscriptionLanes<J> {
    lanes: HashMap<Uuid, SubscriptionLane<J>>,
    /// Lanes that may be able to start a job, each once.
    ready: VecDeque<Uuid>,
    bounds: LaneBounds,
    running: usize,
    running_slow: usize,
    running_new: usize,
    waiting: usize,
    congestion: Congestion,
    /// Set when draining: direct deliveries are placed in the queue instead. Deliveries from the queue do not arrive any more,
    /// because their consumer has ended.
    is_closed: bool,
}

impl<J> SubscriptionLanes<J> {
    pub(super) fn new(bounds: LaneBounds, congestion: Congestion) -> Self {
        Self {
            lanes: HashMap::new(),
            ready: VecDeque::new(),
            bounds,
            running: 0,
            running_slow: 0,
            running_new: 0,
            waiting: 0,
            congestion,
            is_closed: false,
        }
    }

    /// Accepts a job into its lane, or returns it to be parked.
    pub(super) fn admit(&mut self, id: Uuid, job: J, now: Instant) -> Result<(), JobToPark<J>> {
        let expected_wait_max = self.expected_wait_max();
        let lane = self.lanes.entry(id).or_insert_with(|| SubscriptionLane::new(now));
        lane.last_used = now;
        let wait = lane.expected_wait(lane.waiting.len(), self.bounds.each, now);
        if wait > expected_wait_max {
            self.congestion.begin(id);
            return Err(JobToPark { job, wait: wait.clamp(PARK_WAIT.0, PARK_WAIT.1) });
        }
        self.queue(id, job, now);
        Ok(())
    }

    /// Appends a job to its lane without checking the expected wait.
    pub(super) fn queue(&mut self, id: Uuid, job: J, now: Instant) {
        let lane = self.lanes.entry(id).or_insert_with(|| SubscriptionLane::new(now));
        lane.last_used = now;
        lane.waiting.push_back((job, now));
        self.waiting += 1;
        if !lane.is_ready {
            lane.is_ready = true;
            self.ready.push_back(id);
        }
    }

    /// Starts all jobs that can be started now, in round-robin order.
    pub(super) fn start(&mut self, now: Instant) -> Vec<(Uuid, J)> {
        let mut started = Vec::new();
        let mut passed_over = VecDeque::new();
        while self.running < self.bounds.in_all {
            let Some(id) = self.ready.pop_front() else { break };
            let Some(lane) = self.lanes.get_mut(&id) else { continue };
            let class = lane.class(now);
            let has_room = match class {
                LaneClass::Fast => {
                    self.running < self.bounds.in_all - self.bounds.in_all / 8 || lane.running.is_empty()
                }
                LaneClass::Slow => self.running_slow < self.bounds.most_slow(),
                LaneClass::New => self.running_new < (self.bounds.in_all / 8).max(1),
            };
            if !has_room {
                passed_over.push_back(id);
                continue;
            }
            lane.is_ready = false;
            if lane.running.len() >= lane.share(self.bounds.each, now) {
                continue;
            }
            let Some((job, _)) = lane.waiting.pop_front() else { continue };
            lane.running.push_back((now, class));
            self.running += 1;
            self.waiting -= 1;
            match class {
                LaneClass::Fast => {}
                LaneClass::Slow => self.running_slow += 1,
                LaneClass::New => self.running_new += 1,
            }
            if !lane.waiting.is_empty() {
                lane.is_ready = true;
                self.ready.push_back(id);
            }
            started.push((id, job));
        }
        self.ready.append(&mut passed_over);
        started
    }

    /// Ends an attempt of the lane that began at `began`.
    pub(super) fn finish(&mut self, id: Uuid, began: Instant, responsiveness: Responsiveness, now: Instant) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        let position = lane.running.iter().position(|(other, _)| *other == began).unwrap_or(0);
        let Some((_, class)) = lane.running.remove(position) else { return };
        self.running -= 1;
        match class {
            LaneClass::Fast => {}
            LaneClass::Slow => self.running_slow -= 1,
            LaneClass::New => self.running_new -= 1,
        }
        lane.last_used = now;
        let took = now - began;
        let has_recovered = lane.was_unresponsive && responsiveness == Responsiveness::Responded;
        lane.mean = match lane.mean {
            Some(mean) if !has_recovered => {
                Some(mean.mul_f64(1.0 - NEWEST_WEIGHT) + took.mul_f64(NEWEST_WEIGHT))
            }
            Some(_) | None => Some(took),
        };
        lane.was_unresponsive = responsiveness == Responsiveness::Unresponsive;
        if !lane.waiting.is_empty() && !lane.is_ready {
            lane.is_ready = true;
            self.ready.push_back(id);
        }
        if lane.expected_wait(lane.waiting.len(), self.bounds.each, now) <= EXPECTED_WAIT_MAX_WHEN_FULL {
            self.congestion.end(id, now);
        }
    }

    /// Removes, to be parked, the jobs that their lane cannot start within the longest accepted wait, and those that have waited
    /// longer than it. Called several times a second.
    pub(super) fn evict(&mut self, now: Instant) -> Vec<JobToPark<J>> {
        let expected_wait_max = self.expected_wait_max();
        let mut to_park = Vec::new();
        for (id, lane) in &mut self.lanes {
            while let Some(last) = lane.waiting.len().checked_sub(1) {
                let wait = lane.expected_wait(last, self.bounds.each, now);
                if wait <= expected_wait_max {
                    break;
                }
                self.congestion.begin(*id);
                let newest = lane.waiting.pop_back();
                to_park.extend(
                    newest.map(|(job, _)| JobToPark { job, wait: wait.clamp(PARK_WAIT.0, PARK_WAIT.1) }),
                );
            }
            while lane.waiting.front().is_some_and(|(_, since)| now - *since > expected_wait_max) {
                let oldest = lane.waiting.pop_front();
                to_park.extend(oldest.map(|(job, _)| JobToPark { job, wait: STARVED_PARK_WAIT }));
                if lane.running.is_empty() {
                    // Other lanes are the cause, and no attempt of this lane is running whose end could mark it as recovered.
                    self.congestion.forget(*id);
                }
            }
        }
        self.waiting -= to_park.len();
        self.count_long_attempts_as_slow(now);
        self.lanes.retain(|_, lane| {
            !lane.running.is_empty() || !lane.waiting.is_empty() || now - lane.last_used < FORGET_AFTER
        });
        to_park
    }

    /// Counts long attempts of new lanes as slow, so that they do not use up the share of new lanes.
    fn count_long_attempts_as_slow(&mut self, now: Instant) {
        let most = self.bounds.most_slow();
        for (began, class) in self.lanes.values_mut().flat_map(|lane| &mut lane.running) {
            if *class == LaneClass::New && now - *began > STUCK && self.running_slow < most {
                *class = LaneClass::Slow;
                self.running_new -= 1;
                self.running_slow += 1;
            }
        }
    }

    /// Closes the lanes: returns all waiting jobs, and accepts no direct deliveries any more.
    pub(super) fn close(&mut self) -> Vec<J> {
        self.is_closed = true;
        self.ready.clear();
        self.waiting = 0;
        let lanes = self.lanes.values_mut();
        lanes
            .flat_map(|lane| {
                lane.is_ready = false;
                lane.waiting.drain(..).map(|(job, _)| job).collect::<Vec<_>>()
            })
            .collect()
    }

    const fn expected_wait_max(&self) -> Duration {
        if self.waiting * 2 > self.bounds.unacknowledged {
            EXPECTED_WAIT_MAX_WHEN_FULL
        } else {
            EXPECTED_WAIT_MAX
        }
    }
}

#[cfg(test)]
mod tests;
