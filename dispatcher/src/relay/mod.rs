//! The relay: passes new events of the outbox and parked deliveries on.
//!
//! One copy of the dispatcher at a time is the leader, which holds the session lock of [`RelayLeadership`]. Leadership only
//! avoids duplicate work; correctness does not depend on it: an
//! event that is relayed twice, because a leader crashed or two copies considered themselves the leader, has the same
//! delivery ids, and each attempt is recorded once.
//!
//! New events go directly to the lanes of this program while slots are free, and the recorder marks them as relayed once all
//! their deliveries are recorded. Parked deliveries are published to the queue with confirms, then marked. Replay jobs park
//! deliveries. The three run independently.

mod leadership;
mod outbox;
mod parked;
mod replay_jobs;
mod replayed_letters;

use crate::deliver::{Congestion, DirectPath};
use common::broker::{Broker, PublishError};
use common::db::{Database, DatabaseSession, SessionWork, TxError, run_session};
use common::limited;
use common::log_limit::LogLimit;
use common::retry::RetryWaits;
use common::settings::{BrokerSettings, DatabaseUrl};
use futures_util::join;
use leadership::RelayLeadership;
use outbox::OutboxRelay;
use parked::ParkedRelay;
use replay_jobs::ReplayJobs;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Limits the log lines about failures of the relay.
static FAILED: LogLimit<1> = LogLimit::new();

/// Waits after failures of the database or the broker. They double, because messages of a failed step are published again.
const RETRY_WAITS: RetryWaits = RetryWaits::doubling(Duration::from_millis(250), Duration::from_secs(15));

/// Dependencies and settings of the relay.
#[derive(Clone, Debug)]
pub(crate) struct Relay {
    /// For the leader's own session.
    pub url: DatabaseUrl,
    pub database: Database,
    pub broker: Broker,
    /// For a connection of its own when a replay job removes dead letters.
    pub broker_settings: BrokerSettings,
    /// Which subscriptions' lanes are full.
    pub congestion: Congestion,
    /// Hands new events to the lanes.
    pub direct: DirectPath,
    /// How long a pending delivery may be overdue before it counts as lost by the queue.
    pub rescue_after: Duration,
}

/// Runs the relay until `shutdown`, with retries after failures.
pub(crate) async fn run(relay: Relay, shutdown: CancellationToken) {
    let settings = RelayLeadership::session_settings(&relay.url);
    let parked = ParkedRelay::new(relay.clone());
    let mut work = RelayWork { relay, parked, shutdown: shutdown.clone() };
    run_session(&settings, RETRY_WAITS, &mut work, &shutdown).await;
}

/// Relays while the session holds the leadership.
struct RelayWork {
    relay: Relay,
    parked: ParkedRelay,
    shutdown: CancellationToken,
}

impl SessionWork for RelayWork {
    async fn run(&mut self, session: &Arc<DatabaseSession>) -> Result<(), TxError> {
        let acquired = self.shutdown.run_until_cancelled(RelayLeadership::acquire(session)).await;
        let Some(leadership) = acquired else { return Ok(()) };
        run_as_leader(&leadership?, self.relay.clone(), &mut self.parked, &self.shutdown).await
    }

    fn failed(&mut self, error: &TxError) {
        limited!(FAILED[0], warn, %error, "relay failed; retrying");
    }
}

/// Relays while this copy is the leader, until `shutdown`. A step that has begun is finished.
async fn run_as_leader(
    leadership: &RelayLeadership,
    relay: Relay,
    parked: &mut ParkedRelay,
    shutdown: &CancellationToken,
) -> Result<(), TxError> {
    tracing::info!("became the relay leader; relaying the outbox");
    let (leadership_ended, parked_notified) = (shutdown.child_token(), Notify::new());
    let mut outbox = OutboxRelay::new(relay.clone());
    let mut jobs = ReplayJobs::new(relay);
    let relay_new = async {
        let ended = outbox.run(leadership, &parked_notified, &leadership_ended).await;
        leadership_ended.cancel();
        ended
    };
    let relay_parked = async {
        let ended = parked.run(&parked_notified, &leadership_ended).await;
        leadership_ended.cancel();
        ended
    };
    let (of_new, of_parked, ()) =
        join!(relay_new, relay_parked, jobs.run(&parked_notified, &leadership_ended));
    of_new.and(of_parked)
}

/// Why a step of the relay failed.
#[derive(Debug, thiserror::Error)]
enum RelayError {
    #[error("{0}")]
    Database(#[from] TxError),
    #[error("{0}")]
    Broker(#[from] PublishError),
}
