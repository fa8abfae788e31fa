//! A lane for each subscription, so that a slow or dead receiver delays only itself (D28). Pure: time is handed in.
//!
//! - All lanes together have a bounded number of attempts under way, and so has each lane.
//! - Slow lanes together have half of that: however many there are, the others go on.
//! - A lane takes no more than it can work off soon. The rest is handed back, to wait in the database: it holds neither
//!   the queue's head nor the share of messages that this program may have open.
//! - Lanes that have something waiting start it in turn.

use super::congestion::Congestion;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// Longest expected wait of what a lane takes, while there is room.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same when half of the open messages wait.
const IMPATIENCE: Duration = Duration::from_millis(100);
/// A receiver that takes longer than this is slow.
const SLOW: Duration = Duration::from_secs(1);
/// How long what is handed back waits: at least and at most.
const AWAY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Weight of the newest attempt in a lane's mean duration.
const NEWEST: f64 = 0.2;
/// A lane that nothing came for is forgotten after this.
const FORGET_AFTER: Duration = Duration::from_secs(600);
/// The share of a lane whose receiver doesn't answer, as a divisor of the share of one that does.
const SUSPECT_DIVISOR: usize = 8;

/// How much is under way at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Attempts of all lanes.
    pub in_all: usize,
    /// Attempts of one lane.
    pub each: usize,
    /// Messages that may be open.
    pub open: usize,
}

/// How an attempt went, as far as lanes care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The receiver answered, whatever it said.
    Came,
    /// It didn't, or couldn't be reached.
    Failed,
}

/// A job that a lane doesn't take now, and how long it had better wait.
#[derive(Debug)]
pub(super) struct Away<J> {
    pub job: J,
    pub wait: Duration,
}

/// The lanes.
#[derive(Debug)]
pub(super) struct Lanes<J> {
    lanes: HashMap<Uuid, Lane<J>>,
    /// Lanes that could start something, each once.
    ready: VecDeque<Uuid>,
    bounds: Bounds,
    running: usize,
    running_slow: usize,
    waiting: usize,
    congestion: Congestion,
}

#[derive(Debug)]
struct Lane<J> {
    waiting: VecDeque<J>,
    /// When each attempt under way began, oldest first as far as it matters.
    began: VecDeque<Instant>,
    /// Of these, the ones that were counted as slow when they began.
    counted_slow: usize,
    mean: Duration,
    is_suspect: bool,
    is_ready: bool,
    last_used: Instant,
}

impl<J> Lane<J> {
    fn new(now: Instant) -> Self {
        Self {
            waiting: VecDeque::new(),
            began: VecDeque::new(),
            counted_slow: 0,
            mean: Duration::ZERO,
            is_suspect: false,
            is_ready: false,
            last_used: now,
        }
    }

    fn share(&self, each: usize) -> usize {
        if self.is_suspect { (each / SUSPECT_DIVISOR).max(1) } else { each }
    }

    /// How long an attempt takes: as they did, or as the oldest under way has taken.
    fn duration(&self, now: Instant) -> Duration {
        let oldest = self.began.front().map(|began| now - *began).unwrap_or_default();
        self.mean.max(oldest)
    }

    fn is_slow(&self, now: Instant) -> bool {
        self.is_suspect || self.duration(now) > SLOW
    }

    /// How long the job at place `at` waits until it is started.
    fn expected_wait(&self, at: usize, each: usize, now: Instant) -> Duration {
        let share = self.share(each);
        let rounds = (at + self.began.len()) / share;
        self.duration(now).saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX))
    }
}

impl<J> Lanes<J> {
    pub(super) fn new(bounds: Bounds, congestion: Congestion) -> Self {
        Self {
            lanes: HashMap::new(),
            ready: VecDeque::new(),
            bounds,
            running: 0,
            running_slow: 0,
            waiting: 0,
            congestion,
        }
    }

    /// Takes a job into its lane, or hands it back.
    pub(super) fn admit(&mut self, id: Uuid, job: J, now: Instant) -> Result<(), Away<J>> {
        let patience = self.patience();
        let lane = self.lanes.entry(id).or_insert_with(|| Lane::new(now));
        lane.last_used = now;
        let wait = lane.expected_wait(lane.waiting.len(), self.bounds.each, now);
        if wait > patience {
            self.congestion.begin(id);
            return Err(Away { job, wait: wait.clamp(AWAY.0, AWAY.1) });
        }
        lane.waiting.push_back(job);
        self.waiting += 1;
        if !lane.is_ready {
            lane.is_ready = true;
            self.ready.push_back(id);
        }
        Ok(())
    }

    /// All that can be started now, in turn.
    pub(super) fn start(&mut self, now: Instant) -> Vec<(Uuid, J)> {
        let mut started = Vec::new();
        let mut passed_over = VecDeque::new();
        while self.running < self.bounds.in_all {
            let Some(id) = self.ready.pop_front() else { break };
            let Some(lane) = self.lanes.get_mut(&id) else { continue };
            let is_slow = lane.is_slow(now);
            if is_slow && self.running_slow >= (self.bounds.in_all / 2).max(1) {
                passed_over.push_back(id);
                continue;
            }
            lane.is_ready = false;
            if lane.began.len() >= lane.share(self.bounds.each) {
                continue;
            }
            let Some(job) = lane.waiting.pop_front() else { continue };
            lane.began.push_back(now);
            self.running += 1;
            self.waiting -= 1;
            if is_slow {
                lane.counted_slow += 1;
                self.running_slow += 1;
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

    /// An attempt of the lane has ended.
    pub(super) fn finish(&mut self, id: Uuid, began: Instant, answer: Answer, now: Instant) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        let position = lane.began.iter().position(|other| *other == began).unwrap_or(0);
        lane.began.remove(position);
        self.running -= 1;
        if lane.counted_slow > 0 {
            lane.counted_slow -= 1;
            self.running_slow -= 1;
        }
        lane.last_used = now;
        let took = now - began;
        let has_recovered = lane.is_suspect && answer == Answer::Came;
        lane.mean = if has_recovered { took } else { lane.mean.mul_f64(1.0 - NEWEST) + took.mul_f64(NEWEST) };
        lane.is_suspect = answer == Answer::Failed;
        if !lane.waiting.is_empty() && !lane.is_ready {
            lane.is_ready = true;
            self.ready.push_back(id);
        }
        if lane.expected_wait(lane.waiting.len(), self.bounds.each, now) <= IMPATIENCE {
            self.congestion.end(id);
        }
    }

    /// What lanes took when it seemed that they would get to it soon, and won't. To be called several times a second.
    pub(super) fn evict(&mut self, now: Instant) -> Vec<Away<J>> {
        let patience = self.patience();
        let mut away = Vec::new();
        for (id, lane) in &mut self.lanes {
            while let Some(last) = lane.waiting.len().checked_sub(1) {
                let wait = lane.expected_wait(last, self.bounds.each, now);
                if wait <= patience {
                    break;
                }
                self.congestion.begin(*id);
                self.waiting -= 1;
                away.extend(
                    lane.waiting.pop_back().map(|job| Away { job, wait: wait.clamp(AWAY.0, AWAY.1) }),
                );
            }
        }
        self.lanes.retain(|id, lane| {
            let keep =
                !lane.began.is_empty() || !lane.waiting.is_empty() || now - lane.last_used < FORGET_AFTER;
            if !keep {
                self.congestion.end(*id);
            }
            keep
        });
        away
    }

    /// Gives back all that waits: it isn't started any more.
    pub(super) fn clear(&mut self) -> Vec<J> {
        self.ready.clear();
        self.waiting = 0;
        let lanes = self.lanes.values_mut();
        lanes
            .flat_map(|lane| {
                lane.is_ready = false;
                lane.waiting.drain(..).collect::<Vec<_>>()
            })
            .collect()
    }

    const fn patience(&self) -> Duration {
        if self.waiting * 2 > self.bounds.open { IMPATIENCE } else { PATIENCE }
    }
}

#[cfg(test)]
mod tests;
