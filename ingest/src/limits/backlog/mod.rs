//! Bounds the work that was published and is not applied yet, and shares it fairly among tenants.
//!
//! A share is held from before the publish until the worker has replied. A caller that hangs up does not
//! release its share. Shares are counted in backlog units (`units`): 1 for a records write, 1 or 3 for an event by its type, or one for each
//! 4 KiB of body, if that is more. The limit follows the rate at which the worker applies them, which `rate` estimates from replies:
//! the backlog may not take longer than `CONNECT_BACKLOG_TARGET`. By Little's law that holds for any number of ingests without
//! coordination: the queue is processed in order, so each ingest's share of the rate is its share of the queue, and if each holds no
//! more than its rate times the target, so do all together.
//!
//! `state` decides which requests are admitted. "Fair shares" in ARCHITECTURE.md explains the three ways of admission: the limit, the
//! reserve and the first event.

mod hold;
mod rate;
mod report;
mod state;
mod units;

pub(crate) use report::report_pressure;
pub(crate) use units::{batch_units, units};

use crate::refusal::Refusal;
use crate::store::intake_pressure::TenantPressure;
use common::broker::Queue;
use common::metrics::{BACKLOG, BACKLOG_LIMIT};
use common::model::TenantId;
use rate::Rate;
use state::{BacklogFull, CountedRequest, State};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The assumed rates in backlog units a second, by queue, until the worker has replied: about that of one worker on two cores.
const EVENTS_RATE: f64 = 16_000.0;
const WRITES_RATE: f64 = 1_000.0;

/// The backlog of one queue; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Backlog(Arc<Shared>);

/// A share of the backlog, released when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    backlog: Backlog,
    admitted: CountedRequest,
}

#[derive(Debug)]
struct Shared {
    queue: Queue,
    state: Mutex<State>,
}

impl Backlog {
    /// An empty backlog of `queue`, in which no work should wait for longer than `target`.
    pub(crate) fn new(queue: Queue, target: Duration) -> Self {
        let rate = if queue == Queue::Events { EVENTS_RATE } else { WRITES_RATE };
        let state = State::new(Rate::new(rate, target, Instant::now()));
        Self(Arc::new(Shared { queue, state: Mutex::new(state) }))
    }

    /// Takes a share of so many backlog units. To be called before the signature is used up, so that a refused request may be sent
    /// again unchanged. 503 `overloaded`, with a `Retry-After` after which the tenant's work will have been applied.
    pub(crate) fn admit(&self, tenant: TenantId, units: u64) -> Result<Share, Refusal> {
        let mut state = self.state();
        match state.admit(tenant, units, Instant::now()) {
            Ok(admitted) => {
                self.observe(&state);
                drop(state);
                Ok(Share { backlog: self.clone(), admitted })
            }
            Err(BacklogFull { bound, retry_after }) => {
                drop(state);
                Err(bound.refuse_after(retry_after))
            }
        }
    }

    pub(crate) fn queue(&self) -> Queue {
        self.0.queue
    }

    /// The tenants whose requests were refused since the last call.
    pub(crate) fn take_pressures(&self) -> Vec<TenantPressure> {
        let mut state = self.state();
        let refused = state.take_refused();
        let pressure =
            |(tenant, refused)| TenantPressure { tenant, waiting: state.waiting_of(tenant), refused };
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
        state.release(&self.admitted);
        self.backlog.observe(&state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn tenants_that_were_refused_are_reported_once() {
        let backlog = Backlog::new(Queue::Records, Duration::from_millis(600));
        let tenant = TenantId(Uuid::nil());
        let held: Vec<Share> = std::iter::from_fn(|| backlog.admit(tenant, 100).ok()).collect();
        assert_eq!(backlog.take_pressures(), [TenantPressure { tenant, waiting: 300, refused: 1 }]);
        assert_eq!(backlog.take_pressures(), []);
        drop(held);
        assert_eq!(backlog.state().units(), 0);
    }
}
