//! Deliveries of events that are in the outbox already, and the time from a quiet agency's request to its webhook.

use crate::bare_steps::BareSteps;
use crate::comparison::Comparison;
use crate::measure::{LoadStats, Sender, measure, steady, timed};
use crate::options::Options;
use crate::traffic::Traffic;
use crate::worlds::{builder, fill, run_copies, warnings};
use common::signature::sign_webhook;
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tests::{Behavior, HttpClient, HttpRequest, MAX_WAIT, Receiver, World, eventually, now, until};
use tokio_postgres::Client;
use uuid::Uuid;

const DISPATCHERS: [usize; 3] = [1, 2, 4];
const RECEIVERS: [usize; 2] = [1, 50];
/// Deliveries of a burst, and of one before it that is not measured.
const BURST: usize = 75_000;
const WARM_UP: usize = 5_000;
/// Deliveries of another agency that wait beside the quiet one.
const FLOOD: usize = 60_000;
/// How many the dispatcher sends at once to one subscription, and so the bare client.
const SENT_AT_ONCE: u32 = 32;
/// Requests of the quiet agency a second, and of a busy one.
const QUIET_RATE: f64 = 20.0;
const BUSY_RATE: f64 = 300.0;
/// Shortest time in which a steady rate is measured.
const MIN_STEADY: Duration = Duration::from_secs(2);
/// The body of a webhook as a dispatcher sends it.
const ENVELOPE: &str = r#"{"specVersion":"1.0","eventId":"01961ce1-5b1a-7000-8000-000000000000","eventType":"lead.assigned","occurredAt":"2026-01-02T03:04:05.678Z","tenant":"acme","origin":"crm","actor":{"type":"contact","email":"traveller@example.com","name":"Bench Traveller"},"payload":{"leadId":"01961ce1-5b1a-7000-8000-000000000001","clientId":"01961ce1-5b1a-7000-8000-000000000002","tripId":"01961ce1-5b1a-7000-8000-000000000003","enquiryNumber":"ENQ-2026-000001","owner":{"email":"asha@acme.test","name":"Asha"},"previousOwner":null}}"#;

pub(crate) async fn run(options: &Options) -> String {
    let mut setups = [Setup::new(RECEIVERS[0]).await, Setup::new(RECEIVERS[1]).await];
    let (flood, world) = (Receiver::http(), &setups[0].world);
    world.add_tenant("flood").await;
    world.connectctl.json(&["subscription", "create", "--tenant", "flood", "--url", &flood.url("/")]).await;
    fill(world, &world.key).await;
    world.database.execute("ANALYZE").await;

    let mut rates = Comparison::of_rates("deliveries", "bare posts");
    let mut times = Comparison::of_p99("requests", "nobody else");
    let mut steps = Comparison::of_p50("requests", "bare steps");
    for _ in 0..options.rounds {
        for setup in &mut setups {
            for dispatchers in DISPATCHERS {
                run_copies(&mut setup.world, (1, 1, dispatchers)).await;
                setup.prepare(WARM_UP).await;
                setup.burst(WARM_UP).await;
                setup.prepare(BURST).await;
                let label = format!("receivers: {}, dispatchers: {dispatchers}", setup.receivers);
                let load = setup.burst(BURST);
                let floor = setup.posts(options.floor());
                rates.measure(&label, &setup.world, load, floor).await;
            }
        }
        run_copies(&mut setups[0].world, (1, 1, 1)).await;
        let beside = setups[0].beside_flood(&flood, options.duration());
        let alone = setups[0].agency(QUIET_RATE, options.duration());
        times.measure(&format!("beside {FLOOD} deliveries"), &setups[0].world, beside, alone).await;
        for rate in [QUIET_RATE, BUSY_RATE] {
            let agency = setups[0].agency(rate, options.duration());
            let bare = Box::pin(setups[0].bare_steps(rate, options.floor().max(MIN_STEADY)));
            steps.measure(&format!("{rate} a second"), &setups[0].world, agency, bare).await;
        }
    }
    format!(
        "{BURST} deliveries of events that are in the outbox already, until the last one is received and recorded. 50\nreceivers are 50 subscriptions to each event, on one server. Floor: a bare client posts the same messages, each signed,\n{SENT_AT_ONCE} at once; the times are its own. Nothing is read or recorded.\n\n{}\nTimes from request to webhook of a quiet agency that sends {QUIET_RATE} enquiries a second, while one dispatcher works on\n{FLOOD} deliveries of another agency. That one's receiver is so slow that part of them waits until the end.\n\n{}\nThe same while nothing else waits. Floor: the steps that each of them needs, one after the other and by bare clients: a\nPOST, a row whose commit does not wait for the disk (the signature), a round trip over a quorum queue, a row whose commit\ndoes, another row (the delivery), and a POST.\n\n{}{}{}",
        rates.tables(),
        times.figures(),
        steps.tables(),
        warnings(&setups[0].world),
        warnings(&setups[1].world)
    )
}

/// Programs, and a receiver with its subscriptions.
struct Setup {
    world: World,
    receiver: Receiver,
    receivers: usize,
    database: Client,
}

impl Setup {
    async fn new(receivers: usize) -> Self {
        let (world, receiver) = (builder().dispatchers(1).start().await, Receiver::http());
        for number in 0..receivers {
            world.subscribe(&receiver.url(&format!("/{number}"))).await;
        }
        let database = world.database.connect().await;
        Self { world, receiver, receivers, database }
    }

    /// Inserts as many events as make a burst, which are not committed yet. The tables are tidy: the rows that a burst leaves would
    /// make the next one slower.
    async fn prepare(&self, deliveries: usize) {
        self.receiver.clear_received();
        self.database.batch_execute("VACUUM (ANALYZE) outbox_pending, outbox, deliveries").await.expect("a vacuum");
        self.database.batch_execute("BEGIN").await.expect("a transaction");
        insert_outbox_events(&self.database, "acme", deliveries / self.receivers).await;
    }

    /// Commits the events and waits until all is delivered and recorded. There is no time of a request.
    async fn burst(&self, deliveries: usize) -> LoadStats {
        let started = Instant::now();
        self.database.batch_execute("COMMIT").await.expect("the events are committed");
        until_received(&self.receiver, deliveries).await;
        let statement = "SELECT count(*) FROM deliveries WHERE state = 'pending'";
        eventually("the burst is recorded", MAX_WAIT, async || {
            let pending: i64 = self.database.query_one(statement, &[]).await.expect("deliveries").get(0);
            if pending == 0 { Ok(()) } else { Err(format!("{pending} pending")) }
        })
        .await;
        LoadStats::new(deliveries, started.elapsed(), Vec::new())
    }

    /// A bare client posts the same messages, each signed.
    async fn posts(&self, length: Duration) -> LoadStats {
        let client = HttpClient::for_other_server(self.receiver.address());
        measure(SENT_AT_ONCE as usize, length, 1, async |_| {
            let (response, took) = timed(client.send(&signed())).await;
            assert_eq!(response.status, 204);
            took
        })
        .await
    }

    /// The quiet agency's requests while another one's deliveries wait.
    async fn beside_flood(&self, flood: &Receiver, length: Duration) -> LoadStats {
        // Twice as slow as the flood needs to last as long as the measurement.
        flood.respond_to_all(Behavior::status(204).after(length * 2 * SENT_AT_ONCE / FLOOD as u32));
        insert_outbox_events(&self.database, "flood", FLOOD).await;
        let stats = self.agency(QUIET_RATE, length).await;
        assert!(flood.count() < FLOOD, "the flood ended before the measurement");
        flood.respond_to_all(Behavior::status(204));
        until_received(flood, FLOOD).await;
        flood.clear_received();
        stats
    }

    /// Sends enquiries at a steady rate and measures the times until their webhooks are received.
    async fn agency(&self, rate: f64, length: Duration) -> LoadStats {
        self.receiver.clear_received();
        let (sender, sent) = (Sender::new(&self.world, &self.world.key), RefCell::new(HashMap::new()));
        let started = Instant::now();
        steady(rate, length, async || {
            let events = Traffic::Enquiries.draw(1);
            sent.borrow_mut().insert(events[0].id.clone(), Instant::now());
            sender.events(&events).await;
        })
        .await;
        let (took, sent) = (started.elapsed(), sent.into_inner());
        until_received(&self.receiver, sent.len()).await;
        // A webhook repeats the enquiry's external id, which is its event's id.
        let times = self.receiver.received().into_iter().filter_map(|webhook| {
            let sent = sent.get(webhook.json()["payload"]["externalId"].as_str()?)?;
            Some(webhook.at.saturating_duration_since(*sent).as_secs_f64())
        });
        let times: Vec<f64> = times.collect();
        assert!(times.len() >= sent.len(), "{} of {} webhooks name their enquiry", times.len(), sent.len());
        LoadStats::new(sent.len(), took, times)
    }

    /// What no webhook can do without, at a steady rate, by bare clients.
    async fn bare_steps(&self, rate: f64, length: Duration) -> LoadStats {
        let (bare, http) = (BareSteps::new(&self.world).await, HttpClient::for_other_server(self.receiver.address()));
        let started = Instant::now();
        let times = steady(rate, length, async || {
            let steps = async {
                http.send(&signed()).await;
                bare.event(ENVELOPE).await;
                bare.row(ENVELOPE).await;
                http.send(&signed()).await;
            };
            timed(steps).await.1
        })
        .await;
        let took = started.elapsed();
        bare.delete().await;
        LoadStats::new(times.len(), took, times)
    }
}

/// A webhook as a dispatcher sends it.
fn signed() -> HttpRequest {
    HttpRequest::new("POST", "/0", ENVELOPE)
        .with("content-type", "application/json")
        .with("x-connect-signature", sign_webhook([[b'x'; 49].as_slice()], now(), ENVELOPE.as_bytes()))
        .with("x-connect-delivery", Uuid::now_v7().to_string())
}

async fn until_received(receiver: &Receiver, count: usize) {
    until("all webhooks are received", async || receiver.count(), |&received| received >= count).await;
}

/// Inserts events into the outbox and notifies the dispatchers, as the worker does.
async fn insert_outbox_events(database: &Client, tenant: &str, count: usize) {
    let ids: Vec<Uuid> = (0..count).map(|_| Uuid::now_v7()).collect();
    let statement = "WITH new AS (
             INSERT INTO outbox (tenant_id, event_id, event_type, origin, envelope, created_at)
             SELECT tenant_id, id, 'lead.assigned', 'crm', $2::text::json, now()
             FROM tenants, unnest($1::uuid[]) AS id WHERE slug = $3
             RETURNING tenant_id, event_id, created_at
         )
         INSERT INTO outbox_pending (tenant_id, event_id, created_at) SELECT * FROM new";
    let inserted = database.execute(statement, &[&ids, &ENVELOPE, &tenant]).await;
    assert_eq!(inserted.expect("events in the outbox"), count as u64);
    database.batch_execute("NOTIFY connect_outbox").await.expect("the dispatchers are notified");
}
