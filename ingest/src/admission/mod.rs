//! The gate of the tenants: bounds the work that was published and is not applied yet, and shares it fairly.
//!
//! A request takes its share after it was parsed, so that its events are counted as they are, and before its signature
//! is used up, so that it may be sent again unchanged if it is refused. The share is held until the worker has replied:
//! a caller that hangs up does not release it. Shares are counted in backlog units (`units`). The limit follows the
//! rate at which the worker applies them, which `rate` estimates from replies: the backlog may not take longer than
//! `CONNECT_BACKLOG_TARGET`. By Little's law that holds for any number of ingests without coordination: the queue is
//! processed in order, so each ingest's share of the rate is its share of the queue, and if each holds no more than its
//! rate times the target, so do all together.
//!
//! `shares` decides which requests are admitted.

mod rate;
mod shares;
mod units;

pub(crate) use units::{batch_units, write_units};

use crate::refusal::{OverloadReason, Refusal};
use crate::store::intake_pressure::{PressureReport, TenantPressure};
use common::broker::{Hold, Queue};
use common::db::Database;
use common::metrics::{BACKLOG, BACKLOG_LIMIT};
use common::model::TenantId;
use common::periodic::ticks;
use parking_lot::{Mutex, MutexGuard};
use rate::Rate;
use shares::{CountedRequest, State};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// The assumed rates in backlog units a second, by queue, until the worker has replied: about that of one worker on two
/// cores.
const EVENTS_RATE: f64 = 16_000.0;
const WRITES_RATE: f64 = 1_000.0;
/// The interval of reports while requests are refused.
const REPORT_EVERY: Duration = Duration::from_secs(1);

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

    /// 503 `overloaded` when a tenant could not even take one unit: so what it sends beyond its share costs no parse.
    pub(crate) fn check(&self, tenant: TenantId) -> Result<(), Refusal> {
        let checked = self.state().check(tenant, 1, Instant::now());
        checked.map_err(|retry_after| OverloadReason::Tenant.refuse_after(retry_after))
    }

    /// Takes a share of so many backlog units. 503 `overloaded`, with a `Retry-After` after which the tenant's work
    /// will have been applied.
    pub(crate) fn admit(&self, tenant: TenantId, units: u64) -> Result<Share, Refusal> {
        let mut state = self.state();
        let admitted = state.admit(tenant, units, Instant::now());
        let admitted = admitted.map_err(|retry_after| OverloadReason::Tenant.refuse_after(retry_after))?;
        self.observe(&state);
        Ok(Share { backlog: self.clone(), admitted })
    }

    /// The tenants whose requests were refused since the last call.
    fn take_pressures(&self) -> Vec<TenantPressure> {
        let mut state = self.state();
        let refused = state.take_refused();
        let pressure = |(tenant, refused)| TenantPressure { tenant, waiting: state.waiting_of(tenant), refused };
        refused.into_iter().map(pressure).collect()
    }

    fn observe(&self, state: &State) {
        let queue = self.0.queue.as_str();
        metrics::gauge!(BACKLOG, "queue" => queue).set(state.units() as f64);
        metrics::gauge!(BACKLOG_LIMIT, "queue" => queue).set(state.rate.limit());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut state = self.backlog.state();
        state.release(&self.admitted);
        self.backlog.observe(&state);
    }
}

impl Hold for Share {
    fn replied(&self) {
        self.backlog.state().replied(&self.admitted, Instant::now());
    }

    fn unreplied_hold_time(&self) -> Duration {
        self.backlog.state().unreplied_hold_time(&self.admitted, Instant::now())
    }

    fn release_after_longest_wait(self: Box<Self>) {
        let mut state = self.backlog.state();
        let wait = state.disconnected_hold(&self.admitted, Instant::now());
        state.end_wait(&self.admitted);
        drop(state);
        tokio::spawn(async move {
            sleep(wait).await;
            drop(self);
        });
    }
}

/// Reports to the operator which tenants are refused, until the program ends: metrics must not name a tenant. A report
/// that cannot be written is dropped; metrics count its requests.
pub(crate) async fn report_pressure(database: Database, backlogs: Vec<Backlog>) {
    let ingest = Uuid::now_v7();
    let mut ticks = ticks(REPORT_EVERY);
    loop {
        ticks.tick().await;
        for backlog in &backlogs {
            let pressures = backlog.take_pressures();
            if pressures.is_empty() {
                continue;
            }
            let report = PressureReport { ingest, queue: backlog.0.queue.as_str(), pressures: &pressures };
            if let Err(error) = database.run_tx("intake_pressure.report", &report).await {
                tracing::debug!(%error, "reporting refused tenants failed; dropping this report");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::yield_now;
    use tokio::time::timeout;

    /// All shares of 100 units that a tenant gets, of a limit of 600.
    fn take_all(backlog: &Backlog) -> Vec<Share> {
        std::iter::from_fn(|| backlog.admit(TenantId(Uuid::nil()), 100).ok()).collect()
    }

    fn backlog() -> Backlog {
        Backlog::new(Queue::Records, Duration::from_millis(600))
    }

    #[test]
    fn tenants_that_were_refused_are_reported_once() {
        let backlog = backlog();
        let held = take_all(&backlog);
        let pressure = TenantPressure { tenant: TenantId(Uuid::nil()), waiting: 600, refused: 1 };
        assert_eq!(backlog.take_pressures(), [pressure]);
        assert_eq!(backlog.take_pressures(), []);
        drop(held);
        assert_eq!(backlog.state().units(), 0);
    }

    #[tokio::test]
    async fn a_share_without_a_reply_is_held_for_the_time_that_the_worker_needs() {
        let backlog = backlog();
        let begun = Instant::now();
        for share in take_all(&backlog) {
            Box::new(share).release_after_longest_wait();
        }
        assert!(take_all(&backlog).is_empty(), "the tenant has used up its share");
        let until_free = async {
            while backlog.state().units() > 0 {
                yield_now().await;
            }
        };
        timeout(Duration::from_secs(20), until_free).await.expect("the shares are released");
        assert!(begun.elapsed() >= Duration::from_millis(300), "{:?}", begun.elapsed());
        assert_eq!(take_all(&backlog).len(), 6);
    }
}
