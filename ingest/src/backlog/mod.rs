//! What was published and is not applied yet: bounded, and shared fairly among agencies.
//!
//! A share is held from before the publish until the worker has replied, whatever the caller does meanwhile: who hangs
//! up does not get another one for it. Shares are counted in units: an event or a records write, or 4 KiB of body where
//! that is more. The limit follows the rate at which the worker applies, as the waits of requests tell it (`rate`): what
//! waits here may not take longer than `CONNECT_BACKLOG_TARGET`. By Little's law that holds for any number of ingests
//! without their talking to each other: the queue is worked off in its order, so each ingest's part of the rate is its part
//! of the queue, and when each holds no more than its rate times the target, so do all together.
//!
//! A request is admitted (`state`)
//! - within the limit and its agency's share of it. The share is an equal part for each agency that has something waiting,
//!   and one for the agency that comes next; at most half of the first limit. An agency with nothing waiting needs no share,
//!   and its request may exceed the limit by 100 units;
//! - beyond the limit, when its agency would not have more waiting than an equal part of the reserve, half as much as the limit;
//! - in any case when it is of one unit and its agency has nothing waiting, while no more than 1,000 agencies have.

mod hold;
mod rate;
mod report;
#[cfg(test)]
mod simulation;
mod state;
mod units;

pub use report::report;
pub use units::{batch_units, units};

use crate::error::Refusal;
use crate::store::intake_pressure::Pressure;
use common::broker::Queue;
use common::metrics::{BACKLOG, BACKLOG_LIMIT};
use common::model::TenantId;
use rate::Rate;
use state::{Admitted, Full, State};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Units a second that are assumed before the worker has replied, by queue: about what one worker does on two cores.
const EVENTS_RATE: f64 = 16_000.0;
const WRITES_RATE: f64 = 1_000.0;

/// The backlog of one queue; cheap to clone.
#[derive(Clone, Debug)]
pub struct Backlog(Arc<Shared>);

/// A part of the backlog. Given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    backlog: Backlog,
    admitted: Admitted,
}

#[derive(Debug)]
struct Shared {
    queue: Queue,
    state: Mutex<State>,
}

impl Backlog {
    /// An empty backlog of `queue`, of which nothing is to wait for longer than `target`.
    pub fn new(queue: Queue, target: Duration) -> Self {
        let rate = if queue == Queue::Events { EVENTS_RATE } else { WRITES_RATE };
        let state = State::new(Rate::new(rate, target, Instant::now()));
        Self(Arc::new(Shared { queue, state: Mutex::new(state) }))
    }

    /// Takes a share for work of so many units. To be asked for before the signature is used up: what is refused here may
    /// be sent again as it is. 503 `overloaded`, with a `Retry-After` after which the agency's work will have been applied.
    pub fn admit(&self, tenant: TenantId, units: u64) -> Result<Share, Refusal> {
        let mut state = self.state();
        match state.admit(tenant, units, Instant::now()) {
            Ok(admitted) => {
                self.observe(&state);
                drop(state);
                Ok(Share { backlog: self.clone(), admitted })
            }
            Err(Full { bound, retry_after }) => {
                drop(state);
                Err(bound.refuse_for(retry_after))
            }
        }
    }

    /// What waits here.
    pub fn queue(&self) -> Queue {
        self.0.queue
    }

    /// The agencies whose requests were refused since the last call.
    pub fn take_pressures(&self) -> Vec<Pressure> {
        let mut state = self.state();
        let refused = state.take_refused();
        let pressure = |(tenant, refused)| Pressure { tenant, waiting: state.waiting_of(tenant), refused };
        refused.into_iter().map(pressure).collect()
    }

    fn observe(&self, state: &State) {
        let queue = self.0.queue.as_str();
        metrics::gauge!(BACKLOG, "queue" => queue).set(state.units() as f64);
        metrics::gauge!(BACKLOG_LIMIT, "queue" => queue).set(state.rate.limit());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut state = self.backlog.state();
        state.give_back(&self.admitted);
        self.backlog.observe(&state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn agencies_that_were_refused_are_reported_once() {
        let backlog = Backlog::new(Queue::Records, Duration::from_millis(600));
        let tenant = TenantId(Uuid::nil());
        let held: Vec<Share> = std::iter::from_fn(|| backlog.admit(tenant, 100).ok()).collect();
        assert_eq!(backlog.take_pressures(), [Pressure { tenant, waiting: 300, refused: 1 }]);
        assert_eq!(backlog.take_pressures(), []);
        drop(held);
        assert_eq!(backlog.state().units(), 0);
    }
}
