//! From the database into the queue: new events of the outbox, and deliveries that are parked.
//!
//! One copy of the dispatcher at a time does it, the one that holds the lock of [`Turn`]; that saves work, nothing
//! more. What is relayed twice, because a relay died half-way or two believed that it was their turn, is the same
//! delivery twice, and the second message of it is dropped when it is taken from the queue.
//!
//! Order of each step: read, publish with confirms, then mark as done. Nothing that was committed is forgotten.

mod fan_out;
mod outbox;
mod parked;
mod turn;

pub use fan_out::{Key, OutboxEvent, Subscription, delivery_id};

use crate::deliver::Congestion;
use common::broker::{Broker, Publisher};
use common::db::{Database, TxError};
use common::sealed::Secret;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use turn::Turn;

/// Longest wait for a notification: what a lost one costs.
const POLL: Duration = Duration::from_millis(250);
/// Wait after a fault of the database, or of the broker.
const RETRY: Duration = Duration::from_millis(250);
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
        queue: relay.broker.queue_name(common::broker::Queue::Webhooks),
        publisher: Publisher::new(relay.broker.clone(), "webhooks"),
        parked_due: Instant::now(),
        lost_due: Instant::now(),
        relay,
    };
    while let Some(turn) = shutdown.run_until_cancelled(Turn::take(&worker.relay.url)).await {
        let ended = match turn {
            Ok(turn) => worker.turn(turn, &shutdown).await,
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            tracing::warn!(%error, "relay begins anew");
            shutdown.run_until_cancelled(sleep(RETRY)).await;
        }
    }
}

/// Why a step of the relay failed.
#[derive(Debug, thiserror::Error)]
enum RelayError {
    #[error("{0}")]
    Database(#[from] TxError),
    #[error("{0}")]
    Broker(#[from] common::broker::PublishError),
}

struct Worker {
    relay: Relay,
    publisher: Publisher,
    queue: String,
    parked_due: Instant,
    lost_due: Instant,
}

impl Worker {
    /// Relays for as long as it is this copy's turn, or until `shutdown`. A step that has begun is finished: what was
    /// published is marked.
    async fn turn(&mut self, mut turn: Turn, shutdown: &CancellationToken) -> Result<(), TxError> {
        tracing::info!("relaying the outbox");
        while !shutdown.is_cancelled() {
            let wait = match self.step(&mut turn).await {
                Ok(true) => continue,
                Ok(false) => POLL,
                Err(RelayError::Database(error)) => return Err(error),
                // It stays this copy's turn: the broker is no nearer to another one.
                Err(RelayError::Broker(error)) => {
                    tracing::warn!(%error, "what is to be relayed waits");
                    RETRY
                }
            };
            if let Some(waited) = shutdown.run_until_cancelled(turn.wait(wait)).await {
                waited?;
            }
        }
        Ok(())
    }

    /// Relays a step's worth; whether there may be more.
    async fn step(&mut self, turn: &mut Turn) -> Result<bool, RelayError> {
        Ok(self.relay_outbox().await? | self.relay_parked(turn).await?)
    }

    /// Parked deliveries, when it is time or somebody called; and what the queue has lost, from time to time.
    async fn relay_parked(&mut self, turn: &mut Turn) -> Result<bool, RelayError> {
        let now = Instant::now();
        if now >= self.lost_due {
            self.lost_due = now + LOOK_FOR_LOST;
            self.rescue().await?;
        }
        if now < self.parked_due && !turn.was_called() {
            return Ok(false);
        }
        let more = self.unpark().await?;
        self.parked_due = if more { now } else { now + LOOK_AT_PARKED };
        Ok(more)
    }
}

/// A delivery's message for `queue`.
fn message<'a>(
    queue: &'a str,
    meta: &common::message::DeliveryMeta,
    envelope: &'a str,
) -> common::broker::Outgoing<'a> {
    common::broker::Outgoing {
        queue,
        meta: meta.to_header(),
        traceparent: meta.traceparent.clone(),
        body: envelope.as_bytes(),
        waits: None,
    }
}
