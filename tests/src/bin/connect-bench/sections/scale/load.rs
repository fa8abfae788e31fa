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
pub(super) const DELIVERIES: usize = 10_000;
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
    /// Whether outbound events have a subscription to go to.
    pub(super) is_subscribed: bool,
}

/// How many outbound events there are, and how many deliveries have succeeded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outbound {
    events: usize,
    delivered: usize,
}

/// What one stretch of load gave.
pub(super) struct LoadResult {
    pub(super) events: usize,
    pub(super) events_rate: f64,
    /// Batches that were answered 503.
    pub(super) refused: usize,
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
        let outbound = self.outbound().await;
        let before = Reading::take(&self.database, &self.meter).await;
        let started = Instant::now();
        let sending = join_all(callers.iter_mut().map(|caller| send(caller, started, length)));
        let (sent, saturation) = watch(&self.world, &self.database, &self.meter, sending).await;
        let took = started.elapsed().as_secs_f64();
        self.until_delivered(outbound).await;
        let spent = Reading::take(&self.database, &self.meter).await.since(&before);
        let (batches, refused) =
            sent.iter().fold((0, 0), |(all, no), (sent, refused)| (all + sent, no + refused));
        let events = batches * SHAPE.batch;
        let deliveries_rate = self.receiver.count() as f64 / self.until_last_webhook(started);
        LoadResult { events, events_rate: events as f64 / took, refused, deliveries_rate, spent, saturation }
    }

    /// Webhooks that are in the outbox already, until all are delivered and on record.
    pub(super) async fn burst(&self) -> BurstResult {
        self.receiver.forget();
        let before = Reading::take(&self.database, &self.meter).await;
        let outbound = self.outbound().await;
        let started = Instant::now();
        emit(&self.database, DELIVERIES).await;
        self.until_delivered(outbound).await;
        let rate = DELIVERIES as f64 / self.until_last_webhook(started);
        BurstResult { rate, spent: Reading::take(&self.database, &self.meter).await.since(&before) }
    }

    /// What has gone out so far.
    pub(super) async fn outbound(&self) -> Outbound {
        let statement = "SELECT (SELECT count(*) FROM outbox),
            (SELECT count(*) FROM deliveries WHERE state = 'delivered')";
        let row = bounded("deliveries are counted", self.database.query_one(statement, &[])).await;
        let row = row.unwrap_or_else(|error| panic!("deliveries cannot be counted: {error:?}"));
        let count = |column| usize::try_from(row.get::<_, i64>(column)).unwrap_or_default();
        Outbound { events: count(0), delivered: count(1) }
    }

    /// Waits until what has gone into the outbox since `before` is received and on record.
    pub(super) async fn until_delivered(&self, before: Outbound) {
        if !self.is_subscribed {
            return;
        }
        let wanted = self.outbound().await.events - before.events;
        // First by looking at the receiver: counting rows costs what the programs could use.
        eventually("all webhooks are received", PATIENCE, async || match self.receiver.count() {
            received if received >= wanted => Ok(()),
            received => Err(format!("{received} of {wanted}")),
        })
        .await;
        eventually("all deliveries are on record", PATIENCE, async || {
            let delivered = self.outbound().await.delivered - before.delivered;
            if delivered >= wanted { Ok(()) } else { Err(format!("{delivered} of {wanted}")) }
        })
        .await;
    }

    /// Seconds from `started` to the last webhook that was received; infinite when there was none.
    fn until_last_webhook(&self, started: Instant) -> f64 {
        let last = self.receiver.with_received(|all| all.iter().map(|one| one.at).max());
        last.map_or(f64::INFINITY, |last| last.saturating_duration_since(started).as_secs_f64())
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

/// Sends batches until the time is over; each of its events must be accepted unless the batch is refused. Gives how many were accepted and how many refused.
async fn send(caller: &mut EventCaller, started: Instant, length: Duration) -> (usize, usize) {
    let (mut accepted, mut refused) = (0, 0);
    while started.elapsed() < length {
        let events = SHAPE.traffic.draw(SHAPE.batch, &mut caller.random);
        let (response, _) = bounded("one batch of the load", caller.request(&events)).await;
        let all = format!(r#"{{"accepted":{},"#, SHAPE.batch);
        match response.status {
            200 if response.body.starts_with(&all) => accepted += 1,
            503 => {
                refused += 1;
                tokio::time::sleep(AFTER_REFUSAL).await;
            }
            _ => panic!("a batch of the load failed: {response:?}"),
        }
    }
    (accepted, refused)
}
