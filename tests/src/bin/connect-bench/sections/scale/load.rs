//! The load: batches of the mix, spread over all ingests, with their webhooks delivered to one receiver.

use super::resources::{ResourceSnapshot, ResourceUsage};
use super::saturation::{Saturation, watch};
use crate::cpu::CpuMeter;
use crate::events::{EventCaller, LoadShape};
use crate::sections::webhooks::insert_outbox_events;
use crate::time_limit::with_step_timeout;
use crate::traffic::Traffic;
use futures_util::future::join_all;
use std::time::{Duration, Instant};
use tests::{Receiver, World, eventually};
use tokio_postgres::Client;

/// The load that all copies share.
pub(super) const SHAPE: LoadShape = LoadShape { traffic: Traffic::Mix, batch: 100, connections: 8 };
/// Deliveries of one burst.
pub(super) const DELIVERIES: usize = 10_000;
/// Maximum time that all webhooks may take to be delivered.
const MAX_WAIT: Duration = Duration::from_secs(300);
/// How long a caller waits after 503.
const AFTER_REFUSAL: Duration = Duration::from_millis(50);

/// World, receiver and connections that all measurements share.
pub(super) struct BenchSetup {
    pub(super) world: World,
    pub(super) receiver: Receiver,
    pub(super) database: Client,
    pub(super) meter: CpuMeter,
    /// Whether outbound events have a subscription to go to.
    pub(super) is_subscribed: bool,
}

/// How many outbound events there are, and how many deliveries have succeeded.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutboundCounts {
    events: usize,
    delivered: usize,
}

/// The result of one measured load.
pub(super) struct LoadResult {
    pub(super) events: usize,
    pub(super) events_rate: f64,
    /// Batches that were refused with 503.
    pub(super) refused: usize,
    /// From the first request to the last webhook.
    pub(super) deliveries_rate: f64,
    pub(super) spent: ResourceUsage,
    pub(super) saturation: Saturation,
}

/// The result of one burst of webhooks.
pub(super) struct BurstResult {
    pub(super) rate: f64,
    pub(super) spent: ResourceUsage,
}

impl BenchSetup {
    /// Sends for `length`, then waits until all webhooks are delivered.
    pub(super) async fn load(&self, length: Duration) -> LoadResult {
        self.receiver.clear_received();
        let mut callers = self.connect().await;
        let outbound = self.outbound().await;
        let before = ResourceSnapshot::take(&self.database, &self.meter).await;
        let started = Instant::now();
        let sending = join_all(callers.iter_mut().map(|caller| send(caller, started, length)));
        let (sent, saturation) = watch(&self.world, &self.database, &self.meter, sending).await;
        let took = started.elapsed().as_secs_f64();
        self.until_delivered(outbound).await;
        let spent = ResourceSnapshot::take(&self.database, &self.meter).await.since(&before);
        let (batches, refused) =
            sent.iter().fold((0, 0), |(all, no), (sent, refused)| (all + sent, no + refused));
        let events = batches * SHAPE.batch;
        let deliveries_rate = self.receiver.count() as f64 / self.until_last_webhook(started);
        LoadResult { events, events_rate: events as f64 / took, refused, deliveries_rate, spent, saturation }
    }

    /// Inserts events into the outbox and waits until all webhooks are delivered and recorded.
    pub(super) async fn burst(&self) -> BurstResult {
        self.receiver.clear_received();
        let before = ResourceSnapshot::take(&self.database, &self.meter).await;
        let outbound = self.outbound().await;
        let started = Instant::now();
        insert_outbox_events(&self.database, DELIVERIES).await;
        self.until_delivered(outbound).await;
        let rate = DELIVERIES as f64 / self.until_last_webhook(started);
        BurstResult { rate, spent: ResourceSnapshot::take(&self.database, &self.meter).await.since(&before) }
    }

    /// Counts outbound events and successful deliveries so far.
    pub(super) async fn outbound(&self) -> OutboundCounts {
        let statement = "SELECT (SELECT count(*) FROM outbox),
            (SELECT count(*) FROM deliveries WHERE state = 'delivered')";
        let row = with_step_timeout("deliveries are counted", self.database.query_one(statement, &[])).await;
        let row = row.unwrap_or_else(|error| panic!("deliveries cannot be counted: {error:?}"));
        let count = |column| usize::try_from(row.get::<_, i64>(column)).unwrap_or_default();
        OutboundCounts { events: count(0), delivered: count(1) }
    }

    /// Waits until all events since `before` are received and their deliveries recorded.
    pub(super) async fn until_delivered(&self, before: OutboundCounts) {
        if !self.is_subscribed {
            return;
        }
        let wanted = self.outbound().await.events - before.events;
        // The receiver is polled first: counting rows takes CPU time from the programs.
        eventually("all webhooks are received", MAX_WAIT, async || match self.receiver.count() {
            received if received >= wanted => Ok(()),
            received => Err(format!("{received} of {wanted}")),
        })
        .await;
        eventually("all deliveries are recorded", MAX_WAIT, async || {
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

/// Sends batches for `length`; all events of a batch must be accepted unless the batch is refused. Returns the numbers of
/// accepted and refused batches.
async fn send(caller: &mut EventCaller, started: Instant, length: Duration) -> (usize, usize) {
    let (mut accepted, mut refused) = (0, 0);
    while started.elapsed() < length {
        let events = SHAPE.traffic.draw(SHAPE.batch, &mut caller.random);
        let (response, _) = with_step_timeout("one batch of the load", caller.request(&events)).await;
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
