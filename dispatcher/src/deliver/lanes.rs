//! A lane for each subscription, so that a slow or dead receiver delays only itself (D28). Pure: time is handed in.
//!
//! - All lanes together have a bounded number of attempts under way, and so has each lane.
//! - Slow lanes together have three eighths of that, lanes of which nothing is known yet an eighth, and an eighth is kept
//!   for lanes with nothing under way: however many receivers hang, known ones or not, the others go on. An attempt
//!   under way that takes much longer than usual makes its lane slow at once.
//! - A lane takes no more than it can work off soon. The rest is handed back, to wait in the database: it holds neither
//!   the queue's head nor the share of messages that this program may have open.
//! - Lanes that have something waiting start it in turn.

mod placement;

pub(super) use placement::Placement;

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
/// An attempt under way that takes longer than this, and than [`UNUSUAL`] times the mean, is stuck.
const STUCK: Duration = Duration::from_millis(250);
const UNUSUAL: u32 = 4;
/// How long what is handed back waits: at least and at most.
const AWAY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// The same when it waited in vain, because lanes like its own have all the attempts that they may have.
const IN_VAIN: Duration = Duration::from_secs(5);
/// Weight of the newest attempt in a lane's mean duration.
const NEWEST: f64 = 0.2;
/// A lane that nothing came for is forgotten after this.
const FORGET_AFTER: Duration = Duration::from_secs(600);
/// The share of a lane whose receiver answered once and doesn't, as a divisor of the share of one that does. A lane of
/// which nothing is known has one attempt.
const DOUBTFUL_DIVISOR: usize = 8;

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

impl Bounds {
    const fn most_slow(&self) -> usize {
        if self.in_all < 3 { 1 } else { self.in_all * 3 / 8 }
    }
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
    running_new: usize,
    waiting: usize,
    congestion: Congestion,
    /// Nothing is taken or started any more.
    is_closed: bool,
}

/// What is known of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Nothing has ended yet.
    New,
    /// It takes long, or doesn't answer.
    Slow,
    /// It answers soon.
    Fast,
}

#[derive(Debug)]
struct Lane<J> {
    /// What waits, and since when.
    waiting: VecDeque<(J, Instant)>,
    /// When each attempt under way began, oldest first, and what the lane was then.
    began: VecDeque<(Instant, Class)>,
    /// How long attempts take; `None` before the first has ended.
    mean: Option<Duration>,
    /// The last attempt got no answer.
    is_suspect: bool,
    is_ready: bool,
    last_used: Instant,
}

impl<J> Lane<J> {
    fn new(now: Instant) -> Self {
        Self {
            waiting: VecDeque::new(),
            began: VecDeque::new(),
            mean: None,
            is_suspect: false,
            is_ready: false,
            last_used: now,
        }
    }

    /// How long the oldest attempt under way has taken.
    fn oldest(&self, now: Instant) -> Duration {
        self.began.front().map(|(began, _)| now - *began).unwrap_or_default()
    }

    /// How long an attempt takes: as they did, or as the oldest under way has taken.
    fn duration(&self, now: Instant) -> Duration {
        self.mean.unwrap_or_default().max(self.oldest(now))
    }

    fn is_stuck(&self, now: Instant) -> bool {
        self.oldest(now) > STUCK.max(self.mean.unwrap_or_default() * UNUSUAL)
    }

    fn class(&self, now: Instant) -> Class {
        match self.mean {
            _ if self.is_suspect || self.is_stuck(now) => Class::Slow,
            None => Class::New,
            Some(mean) if mean > SLOW => Class::Slow,
            Some(_) => Class::Fast,
        }
    }

    /// How many attempts the lane may have under way.
    fn share(&self, each: usize, now: Instant) -> usize {
        if self.mean.is_none() {
            1
        } else if self.is_suspect || self.is_stuck(now) {
            (each / DOUBTFUL_DIVISOR).max(1)
        } else {
            each
        }
    }

    /// How long the job at place `at` waits until it is started.
    fn expected_wait(&self, at: usize, each: usize, now: Instant) -> Duration {
        let share = self.share(each, now);
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
            running_new: 0,
            waiting: 0,
            congestion,
            is_closed: false,
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
        self.queue(id, job, now);
        Ok(())
    }

    /// Takes a job into its lane: there is a place for it.
    pub(super) fn queue(&mut self, id: Uuid, job: J, now: Instant) {
        let lane = self.lanes.entry(id).or_insert_with(|| Lane::new(now));
        lane.last_used = now;
        lane.waiting.push_back((job, now));
        self.waiting += 1;
        if !lane.is_ready {
            lane.is_ready = true;
            self.ready.push_back(id);
        }
    }

    /// All that can be started now, in turn.
    pub(super) fn start(&mut self, now: Instant) -> Vec<(Uuid, J)> {
        let mut started = Vec::new();
        let mut passed_over = VecDeque::new();
        while self.running < self.bounds.in_all {
            let Some(id) = self.ready.pop_front() else { break };
            let Some(lane) = self.lanes.get_mut(&id) else { continue };
            let class = lane.class(now);
            let has_room = match class {
                Class::Fast => {
                    self.running < self.bounds.in_all - self.bounds.in_all / 8 || lane.began.is_empty()
                }
                Class::Slow => self.running_slow < self.bounds.most_slow(),
                Class::New => self.running_new < (self.bounds.in_all / 8).max(1),
            };
            if !has_room {
                passed_over.push_back(id);
                continue;
            }
            lane.is_ready = false;
            if lane.began.len() >= lane.share(self.bounds.each, now) {
                continue;
            }
            let Some((job, _)) = lane.waiting.pop_front() else { continue };
            lane.began.push_back((now, class));
            self.running += 1;
            self.waiting -= 1;
            match class {
                Class::Fast => {}
                Class::Slow => self.running_slow += 1,
                Class::New => self.running_new += 1,
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
        let position = lane.began.iter().position(|(other, _)| *other == began).unwrap_or(0);
        let Some((_, class)) = lane.began.remove(position) else { return };
        self.running -= 1;
        match class {
            Class::Fast => {}
            Class::Slow => self.running_slow -= 1,
            Class::New => self.running_new -= 1,
        }
        lane.last_used = now;
        let took = now - began;
        let has_recovered = lane.is_suspect && answer == Answer::Came;
        lane.mean = match lane.mean {
            Some(mean) if !has_recovered => Some(mean.mul_f64(1.0 - NEWEST) + took.mul_f64(NEWEST)),
            Some(_) | None => Some(took),
        };
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
                let newest = lane.waiting.pop_back();
                away.extend(newest.map(|(job, _)| Away { job, wait: wait.clamp(AWAY.0, AWAY.1) }));
            }
            while lane.waiting.front().is_some_and(|(_, since)| now - *since > patience) {
                let oldest = lane.waiting.pop_front();
                away.extend(oldest.map(|(job, _)| Away { job, wait: IN_VAIN }));
            }
        }
        self.waiting -= away.len();
        self.recount(now);
        for (id, lane) in &self.lanes {
            if lane.began.is_empty() && lane.waiting.is_empty() {
                // Nothing ends here that could say so later.
                self.congestion.clear(*id);
            }
        }
        self.lanes.retain(|id, lane| {
            let keep =
                !lane.began.is_empty() || !lane.waiting.is_empty() || now - lane.last_used < FORGET_AFTER;
            if !keep {
                self.congestion.clear(*id);
            }
            keep
        });
        away
    }

    /// Attempts of new lanes that don't end soon count among the slow ones, and leave their place to other new lanes.
    fn recount(&mut self, now: Instant) {
        let most = self.bounds.most_slow();
        for (began, class) in self.lanes.values_mut().flat_map(|lane| &mut lane.began) {
            if *class == Class::New && now - *began > STUCK && self.running_slow < most {
                *class = Class::Slow;
                self.running_new -= 1;
                self.running_slow += 1;
            }
        }
    }

    /// Gives back all that waits: it isn't started any more, and nothing more is taken directly.
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

    const fn patience(&self) -> Duration {
        if self.waiting * 2 > self.bounds.open { IMPATIENCE } else { PATIENCE }
    }
}

#[cfg(test)]
mod tests;
