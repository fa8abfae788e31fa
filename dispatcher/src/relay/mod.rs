//! From the database to the receivers: new events of the outbox, and deliveries that are parked.
//!
//! One copy of the dispatcher at a time does it, the leader, which holds the lock of [`Turn`]; that saves work, nothing
//! more. What is relayed twice, because a leader died half-way or two believed that they were it, is the same delivery
//! twice, and the record of its attempt counts once.
//!
//! New events go straight into this program's lanes, as far as there is room, and are marked by the ledger once all their
//! deliveries are on record. Parked deliveries go into the queue: read, published with confirms, then marked. The two
//! don't wait for each other.

mod outbox;
mod parked;
mod turn;

use crate::deliver::{Congestion, DirectPath};
use common::broker::{Broker, PublishError};
use common::db::{Database, TxError};
use common::limited;
use common::log_limit::LogLimit;
use common::settings::DatabaseUrl;
use futures_util::join;
use outbox::OutboxRelay;
use parked::ParkedRelay;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use turn::Turn;

/// Which failures of the relay are logged.
static FAILED: LogLimit<1> = LogLimit::new();

/// Waits after faults of the database or the broker: the first and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(15));

/// What relaying needs.
#[derive(Clone, Debug)]
pub struct Relay {
    /// For a connection of its own.
    pub url: DatabaseUrl,
    /// Where everything is read and marked.
    pub database: Database,
    /// The broker.
    pub broker: Broker,
    /// Which subscriptions have enough to do here.
    pub congestion: Congestion,
    /// Where new events go.
    pub direct: DirectPath,
    /// How long past its due time a delivery counts as lost by the queue.
    pub rescue_after: Duration,
}

/// Relays until `shutdown`.
pub async fn run(relay: Relay, shutdown: CancellationToken) {
    let mut parked = ParkedRelay::new(relay.clone());
    let mut faults = Faults::default();
    while let Some(turn) = shutdown.run_until_cancelled(Turn::take(&relay.url)).await {
        let ended = match turn {
            Ok(turn) => {
                faults = Faults::default();
                lead(&turn, relay.clone(), &mut parked, &shutdown).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            limited!(FAILED[0], warn, %error, "relay begins anew");
            shutdown.run_until_cancelled(sleep(faults.next_wait())).await;
        }
    }
}

/// Relays for as long as this copy is the leader, or until `shutdown`. A step that has begun is finished.
async fn lead(
    turn: &Turn,
    relay: Relay,
    parked: &mut ParkedRelay,
    shutdown: &CancellationToken,
) -> Result<(), TxError> {
    tracing::info!("relaying the outbox");
    let (over, called_for_parked) = (shutdown.child_token(), Notify::new());
    let mut outbox = OutboxRelay::new(relay);
    let new = async {
        let ended = outbox.run(turn, &called_for_parked, &over).await;
        over.cancel();
        ended
    };
    let parked = async {
        let ended = parked.run(&called_for_parked, &over).await;
        over.cancel();
        ended
    };
    let (new, parked) = join!(new, parked);
    new.and(parked)
}

/// Why a step of the relay failed.
#[derive(Debug, thiserror::Error)]
enum RelayError {
    #[error("{0}")]
    Database(#[from] TxError),
    #[error("{0}")]
    Broker(#[from] PublishError),
}

/// Faults one after the other.
#[derive(Debug, Default)]
struct Faults(u32);

impl Faults {
    /// How long to wait after another one: longer each time, since what was published may have to be published again.
    fn next_wait(&mut self) -> Duration {
        let wait = RETRY.0.saturating_mul(1_u32.checked_shl(self.0).unwrap_or(u32::MAX)).min(RETRY.1);
        self.0 += 1;
        wait
    }
}
