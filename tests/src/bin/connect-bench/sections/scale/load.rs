//! The load: batches of the mix, spread over all ingests, with their webhooks delivered to one receiver.

use super::reading::{Difference, Reading};
use super::saturation::{Saturation, watch};
use crate::bounded::bounded;
use crate::cpu::Meter;
use crate::events::{EventCaller, Shape};
use crate::sections::webhooks::emit;
use crate::traffic::Traffic;
use futures_util::future::join_all;
use std::time::{Duration, Instant};
use tests::{Receiver, World, eventually};
use tokio_postgres::Client;

/// The load that all copies share.
pub(super) const SHAPE: Shape = Shape { traffic: Traffic::Mix, batch: 100, connections: 8 };
/// Deliveries of one burst.
pub(super) const DELIVERIES: usize = 3_000;
/// Longest that all webhooks may take to be delivered.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long a caller waits after 503.
const AFTER_REFUSAL: Duration = Duration::from_millis(50);

/// What the measurements share.
pub(super) struct Stage {
    pub(super) world: World,
    pub(super) receiver: Receiver,
    pub(super) database: Client,
    pub(super) meter: Meter,
}

/// What one stretch of load gave.
pub(super) struct LoadResult {
    pub(super) events: usize,
    pub(super) events_rate: f64,
    /// Batches that were answered 503.
    pub(super) refused: usize,
    pub(super) deliveries: usize,
    /// From the first request to the last webhook.
    pub(super) deliveries_rate: f64,
    pub(super) spent: Difference,
    pub(super) saturation: Saturation,
}

/// What one burst of webhooks gave.
pub(super) struct BurstResult {
    pub(super) rate: f64,
    pub(super) spent: Difference,
}

impl Stage {
    /// Sends for that long, then waits until all webhooks are delivered.
    pub(super) async fn load(&self, length: Duration) -> LoadResult {
        self.receiver.forget();
        let mut callers = self.connect().await;
        let before = Reading::take(&self.database, &self.meter).await;
        let started = Instant::now();
        let sending = join_all(callers.iter_mut().map(|caller| send(caller, started, length)));
        let (sent, saturation) = watch(&self.world, &self.database, &self.meter, sending).await;
        let took = started.elapsed().as_secs_f64();
        self.until_delivered().await;
        let spent = Reading::take(&self.database, &self.meter).await.since(&before);
        let (batches, refused) =
            sent.iter().fold((0, 0), |(all, no), (sent, refused)| (all + sent, no + refused));
        let events = batches * SHAPE.batch;
        let (deliveries, last) =
            self.receiver.with_received(|all| (all.len(), all.iter().map(|one| one.at).max()));
        let until_last = last.map_or(f64::INFINITY, |last| (last - started).as_secs_f64());
        LoadResult {
            events,
            events_rate: events as f64 / took,
            refused,
            deliveries,
            deliveries_rate: deliveries as f64 / until_last,
            spent,
            saturation,
        }
    }

    /// Webhooks that are in the outbox already, until all are delivered and on record.
    pub(super) async fn burst(&self) -> BurstResult {
        self.receiver.forget();
        let before = Reading::take(&self.database, &self.meter).await;
        let started = Instant::now();
        emit(&self.database, DELIVERIES).await;
        self.until_delivered().await;
        let rate = DELIVERIES as f64 / started.elapsed().as_secs_f64();
        let received = self.receiver.count();
        assert!(received >= DELIVERIES, "{received} of {DELIVERIES} webhooks were received");
        BurstResult { rate, spent: Reading::take(&self.database, &self.meter).await.since(&before) }
    }

    /// Waits until no outbound event and no delivery waits.
    pub(super) async fn until_delivered(&self) {
        let statement = "SELECT (SELECT count(*) FROM outbox WHERE relayed_at IS NULL)
            + (SELECT count(*) FROM deliveries WHERE state = 'pending')";
        eventually("all webhooks are delivered", PATIENCE, async || {
            let row =
                bounded("pending deliveries are counted", self.database.query_one(statement, &[])).await;
            match row.unwrap_or_else(|error| panic!("pending deliveries: {error:?}")).get::<_, i64>(0) {
                0 => Ok(()),
                pending => Err(format!("{pending} pending")),
            }
        })
        .await;
    }

    /// Connections to all ingests in turn.
    async fn connect(&self) -> Vec<EventCaller> {
        let ingests = self.world.ingests.iter().cycle().take(SHAPE.connections);
        let connect = |ingest: &tests::Program| {
            let address = ingest.http().address();
            async move { EventCaller::connect_to(address, &self.world.key).await }
        };
        join_all(ingests.map(connect)).await
    }
}

/// Sends batches until the time is over. Gives how many were accepted and how many refused.
async fn send(caller: &mut EventCaller, started: Instant, length: Duration) -> (usize, usize) {
    let (mut accepted, mut refused) = (0, 0);
    while started.elapsed() < length {
        let events = SHAPE.traffic.draw(SHAPE.batch, &mut caller.random);
        let (response, _) = bounded("one batch of the load", caller.request(&events)).await;
        match response.status {
            200 => accepted += 1,
            503 => {
                refused += 1;
                tokio::time::sleep(AFTER_REFUSAL).await;
            }
            _ => panic!("a batch of the load failed: {response:?}"),
        }
    }
    (accepted, refused)
}
