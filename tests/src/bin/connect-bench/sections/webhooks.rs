//! The dispatcher alone: events are put into the outbox in one statement. Deliveries a second, and the time from commit
//! to receipt of single events, compared with the cost of sending, queueing and inserting the same messages, each by itself.

use super::webhook_floors::{self, WebhookFloors};
use crate::cpu::CpuMeter;
use crate::figures::{median, millis, percentile};
use crate::options::Options;
use crate::time_limit::with_step_timeout;
use common::progress::Progress;
use std::time::Instant;
use tests::{MAX_WAIT, Receiver, World, eventually};
use tokio_postgres::Client;
use uuid::Uuid;

/// Deliveries of one measurement of the rate.
pub(crate) const DELIVERIES: usize = 3_000;
/// Events sent one by one for the times.
const SINGLE_EVENTS: usize = 100;
/// Subscriptions that an event goes to.
const SUBSCRIPTIONS: [usize; 2] = [1, 50];

pub(crate) async fn run(options: &Options) {
    let rounds = options.rounds;
    println!(
        "webhooks: the dispatcher alone, {DELIVERIES} deliveries in a burst to one receiver on this machine;"
    );
    println!(
        "floor: 1/(1/a + 1/b + 1/c), a: a bare client posts the same messages signed, b: a bare quorum queue"
    );
    println!("transports them, c: bare multi-row inserts of their rows");
    println!(
        "{:>13} {:>12} {:>9} {:>9}   {:>7} {:>7} {:>7} {:>8} {:>6}",
        "subscriptions", "deliveries/s", "p50", "p99", "a", "b", "c", "floor /s", "ratio"
    );
    // The warm-up, the measured bursts, as many floors, and the times.
    let steps = SUBSCRIPTIONS.len() * (2 * rounds + 2);
    let mut progress = Progress::begin("steps measured:", steps as u64);
    for subscriptions in SUBSCRIPTIONS {
        let name = |step: &str| format!("{step}, subscriptions: {subscriptions}");
        progress.next(&name("warming up"));
        let setup = BenchSetup::new(subscriptions).await;
        setup.burst().await;
        let (mut rates, mut floors, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let meter = CpuMeter::new(&setup.world);
        let before = meter.read();
        for _ in 0..rounds {
            progress.next(&name("a burst"));
            rates.push(setup.burst().await);
        }
        let spent = meter.read().since(&before).per_thousand(rounds * DELIVERIES);
        for rate in &rates {
            progress.next(&name("floors"));
            let floor = webhook_floors::measure(&setup.world, &setup.receiver, setup.events()).await;
            ratios.push(rate / floor.together());
            floors.push(floor);
        }
        progress.next(&name("one event at a time"));
        let times = setup.singles().await;
        let floor = |one: fn(&WebhookFloors) -> f64| median(floors.iter().map(one));
        let row = format!(
            "{subscriptions:>13} {:>12.0} {:>9} {:>9}   {:>7.0} {:>7.0} {:>7.0} {:>8.0} {:>5.0}%",
            median(rates.iter().copied()),
            millis(percentile(&times, 0.5)),
            millis(percentile(&times, 0.99)),
            floor(|floors| floors.post),
            floor(|floors| floors.queue),
            floor(|floors| floors.rows),
            floor(WebhookFloors::together),
            median(ratios.iter().copied()) * 100.0,
        );
        progress.with_bar_hidden(|| println!("{row}\n              CPU time per 1,000 deliveries: {spent}"));
    }
    progress.end(steps as u64);
    println!("p50 and p99: from commit to receipt, one event at a time");
}

/// Programs, a receiver and its subscriptions.
struct BenchSetup {
    world: World,
    receiver: Receiver,
    database: Client,
    subscriptions: usize,
}

impl BenchSetup {
    async fn new(subscriptions: usize) -> Self {
        let world = World::with().dispatchers(1).set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true").start().await;
        let receiver = Receiver::http();
        for number in 0..subscriptions {
            let url = receiver.url(&format!("/{number}"));
            world.subscribe(&url).await;
        }
        let database = world.database.connect().await;
        Self { world, receiver, database, subscriptions }
    }

    /// Events of one burst.
    const fn events(&self) -> usize {
        DELIVERIES / self.subscriptions
    }

    /// Commits as many events as make a burst and waits until all is delivered and recorded. Returns deliveries per second.
    async fn burst(&self) -> f64 {
        self.receiver.clear_received();
        let before = self.delivered().await;
        let begun = Instant::now();
        self.insert_outbox_events(self.events()).await;
        let wanted = before + i64::try_from(DELIVERIES).expect("few");
        eventually("the burst is delivered", MAX_WAIT * 5, async || match self.delivered().await {
            count if count >= wanted => Ok(()),
            count => Err(format!("{count} of {wanted}")),
        })
        .await;
        DELIVERIES as f64 / begun.elapsed().as_secs_f64()
    }

    /// Times from commit to receipt, in seconds, sorted, of events that come one by one.
    async fn singles(&self) -> Vec<f64> {
        let mut times = Vec::new();
        for _ in 0..SINGLE_EVENTS {
            self.receiver.clear_received();
            self.insert_outbox_events(1).await;
            let committed = Instant::now();
            for received in self.receiver.wait_for(self.subscriptions).await {
                times.push(received.at.saturating_duration_since(committed).as_secs_f64());
            }
            // Each event must find an idle dispatcher.
            eventually("all deliveries are recorded", MAX_WAIT, async || match self.pending().await {
                0 => Ok(()),
                pending => Err(format!("{pending} pending")),
            })
            .await;
        }
        times.sort_by(f64::total_cmp);
        times
    }

    /// Inserts events into the outbox and notifies the dispatcher, as the worker does.
    async fn insert_outbox_events(&self, count: usize) {
        insert_outbox_events(&self.database, count).await;
    }

    async fn delivered(&self) -> i64 {
        self.in_state("delivered").await
    }

    async fn pending(&self) -> i64 {
        self.in_state("pending").await
    }

    async fn in_state(&self, state: &str) -> i64 {
        let statement = "SELECT count(*) FROM deliveries WHERE state = $1";
        let counted =
            with_step_timeout("deliveries are counted", self.database.query_one(statement, &[&state])).await;
        counted.unwrap_or_else(|error| panic!("deliveries cannot be counted: {error:?}")).get(0)
    }
}

/// Inserts events of the tenant `acme` into the outbox and notifies the dispatchers, as the worker does.
pub(super) async fn insert_outbox_events(database: &Client, count: usize) {
    let ids: Vec<Uuid> = (0..count).map(|_| Uuid::now_v7()).collect();
    let statement = "INSERT INTO outbox (tenant_id, event_id, event_type, origin, envelope, created_at)
         SELECT tenant_id, id, 'lead.assigned', 'crm', $2::text::json, now()
         FROM tenants, unnest($1::uuid[]) AS id WHERE slug = 'acme'";
    let envelope = webhook_floors::envelope();
    let emitted = async {
        database.execute(statement, &[&ids, &envelope]).await?;
        database.batch_execute("NOTIFY connect_outbox").await
    };
    let emitted = with_step_timeout("events are inserted into the outbox", emitted).await;
    emitted.unwrap_or_else(|error| panic!("events cannot be put into the outbox: {error:?}"));
}
