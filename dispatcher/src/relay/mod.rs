//! From the database into the queue: new events of the outbox, and deliveries that are parked.
//!
//! One copy of the dispatcher at a time does it, the one that holds the lock of [`Turn`]; that saves work, nothing
//! more. What is relayed twice, because a relay died half-way or two believed that it was their turn, is the same
//! delivery twice, and the second message of it is dropped when it is taken from the queue.
//!
//! Order of each step: read, publish with confirms, then mark as done. Nothing that was committed is forgotten.

mod outbox;
mod parked;
mod turn;

use crate::deliver::Congestion;
use common::broker::{Broker, Outgoing, PublishError, Publisher, Queue};
use common::db::{Database, TxError};
use common::message::DeliveryMeta;
use common::sealed::Secret;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use turn::Turn;
use uuid::Uuid;

/// Longest wait for a notification: what a lost one costs.
const POLL: Duration = Duration::from_millis(250);
/// Waits after faults of the database or the broker: the first and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(15));
/// How often parked deliveries are looked for.
const LOOK_AT_PARKED: Duration = Duration::from_millis(500);
/// How often what the queue has lost is looked for.
const LOOK_FOR_LOST: Duration = Duration::from_secs(15);
/// Longest that the broker may take to confirm what is published together.
const CONFIRM_WITHIN: Duration = Duration::from_secs(5);

/// What relaying needs.
#[derive(Debug)]
pub struct Relay {
    /// For a connection of its own.
    pub url: Secret,
    /// Where everything is read and marked.
    pub database: Database,
    /// The broker.
    pub broker: Broker,
    /// Which subscriptions have enough to do here.
    pub congestion: Congestion,
    /// How long past its due time a delivery counts as lost by the queue.
    pub rescue_after: Duration,
}

/// Relays until `shutdown`.
pub async fn run(relay: Relay, shutdown: CancellationToken) {
    let mut worker = Worker {
        queue: relay.broker.queue_name(Queue::Webhooks),
        publisher: Publisher::new(relay.broker.clone(), "webhooks"),
        parked_due: Instant::now(),
        parked_after: Uuid::nil(),
        lost_due: Instant::now(),
        faults: 0,
        relay,
    };
    while let Some(turn) = shutdown.run_until_cancelled(Turn::take(&worker.relay.url)).await {
        let ended = match turn {
            Ok(turn) => worker.turn(&turn, &shutdown).await,
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            tracing::warn!(%error, "relay begins anew");
            let wait = worker.after_fault();
            shutdown.run_until_cancelled(sleep(wait)).await;
        }
    }
}

/// Why a step of the relay failed.
#[derive(Debug, thiserror::Error)]
enum RelayError {
    #[error("{0}")]
    Database(#[from] TxError),
    #[error("{0}")]
    Broker(#[from] PublishError),
}

struct Worker {
    relay: Relay,
    publisher: Publisher,
    queue: String,
    parked_due: Instant,
    /// The subscription after which parked deliveries are looked for, so that each has its turn.
    parked_after: Uuid,
    lost_due: Instant,
    /// Steps that failed one after the other.
    faults: u32,
}

impl Worker {
    /// Relays for as long as it is this copy's turn, or until `shutdown`. A step that has begun is finished: what was
    /// published is marked.
    async fn turn(&mut self, turn: &Turn, shutdown: &CancellationToken) -> Result<(), TxError> {
        tracing::info!("relaying the outbox");
        while !shutdown.is_cancelled() {
            turn.check()?;
            let wait = match self.step(turn).await {
                Ok(more) => {
                    self.faults = 0;
                    if more {
                        continue;
                    }
                    POLL
                }
                Err(RelayError::Database(error)) => return Err(error),
                // It stays this copy's turn: the broker is no nearer to another one.
                Err(RelayError::Broker(error)) => {
                    tracing::warn!(%error, "what is to be relayed waits");
                    self.after_fault()
                }
            };
            shutdown.run_until_cancelled(turn.wait(wait)).await;
        }
        Ok(())
    }

    /// How long to wait after a fault: longer each time, since what was published may have to be published again.
    fn after_fault(&mut self) -> Duration {
        let wait = RETRY.0.saturating_mul(1_u32.checked_shl(self.faults).unwrap_or(u32::MAX)).min(RETRY.1);
        self.faults += 1;
        wait
    }

    /// Relays a step's worth; whether there may be more.
    async fn step(&mut self, turn: &Turn) -> Result<bool, RelayError> {
        Ok(self.relay_outbox().await? | self.relay_parked(turn).await?)
    }

    /// Parked deliveries, when it is time or somebody called; and what the queue has lost, from time to time.
    async fn relay_parked(&mut self, turn: &Turn) -> Result<bool, RelayError> {
        let now = Instant::now();
        if now >= self.lost_due {
            self.lost_due = now + LOOK_FOR_LOST;
            self.rescue().await?;
        }
        if now < self.parked_due && !turn.was_called_for_parked() {
            return Ok(false);
        }
        let more = self.unpark().await?;
        self.parked_due = if more { now } else { now + LOOK_AT_PARKED };
        Ok(more)
    }
}

/// A delivery's message for `queue`.
fn message<'a>(queue: &'a str, meta: &DeliveryMeta, envelope: &'a str) -> Outgoing<'a> {
    let traceparent = meta.traceparent.clone();
    Outgoing { queue, meta: meta.to_header(), traceparent, body: envelope.as_bytes(), waits: None }
}
