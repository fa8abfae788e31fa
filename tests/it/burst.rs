//! Batches during which a fault is injected, in a bounded burst or for as long as the fault takes, and the check that every event was applied exactly once.
//!
//! The senders behave as partners should: they sign a batch again and resend it until it succeeds.

use futures_util::future::join_all;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tests::{ApiKey, Event, HttpClient, HttpError, World, batch, event, eventually, text};
use tokio::sync::watch;

const BATCHES: usize = 90;
pub(crate) const EVENTS: usize = 5;
const SENDERS: usize = 6;
/// Between two batches of a sender when their number has no bound.
const PAUSE: Duration = Duration::from_millis(20);
/// Fewer than there are events, so that batches share clients.
const PEOPLE: usize = 40;
/// Longer than any server takes to come back.
const OUTAGE: Duration = Duration::from_secs(300);

/// The batches of a burst that has ended.
pub(crate) struct Burst {
    pub(crate) batches: Vec<SentBatch>,
}

/// A batch that succeeded in the end.
pub(crate) struct SentBatch {
    /// When the try began that succeeded.
    begun: Instant,
    /// The error codes of the tries before that; `None` where the connection broke.
    refusals: Vec<Option<String>>,
    results: Vec<Value>,
}

/// The number of batches that have succeeded, and when the latest of them began.
pub(crate) struct Progress(watch::Receiver<(usize, Option<Instant>)>);

impl Progress {
    /// Waits until `part` of the burst, from 0 to 1, has succeeded.
    pub(crate) async fn until(&mut self, part: f64) {
        let wanted = (BATCHES as f64 * part) as usize;
        self.wait_for(|(done, _)| *done >= wanted).await;
    }

    /// Waits until a batch has succeeded that begins now or later; returns how long that took.
    pub(crate) async fn until_next_success(&mut self) -> Duration {
        let begun = Instant::now();
        self.wait_for(|(_, latest)| latest.is_some_and(|latest| latest >= begun)).await;
        begun.elapsed()
    }

    async fn wait_for(&mut self, is_reached: impl FnMut(&(usize, Option<Instant>)) -> bool) {
        let reached = tokio::time::timeout(OUTAGE, self.0.wait_for(is_reached)).await;
        reached.unwrap_or_else(|_| panic!("the burst stalls")).expect("the burst runs");
    }
}

/// Sends the burst to these ingests while `fault` runs.
pub(crate) async fn send(key: &ApiKey, ingests: &[SocketAddr], fault: impl AsyncFnOnce(Progress)) -> Burst {
    send_batches(key, ingests, Some(BATCHES), fault).await
}

/// Sends batches to these ingests until `fault` ends.
pub(crate) async fn send_during(key: &ApiKey, ingests: &[SocketAddr], fault: impl AsyncFnOnce(Progress)) -> Burst {
    send_batches(key, ingests, None, fault).await
}

async fn send_batches(
    key: &ApiKey, ingests: &[SocketAddr], count: Option<usize>, fault: impl AsyncFnOnce(Progress),
) -> Burst {
    let ingests: Vec<HttpClient> = ingests.iter().copied().map(HttpClient::new).collect();
    let batches = Mutex::new(Vec::new());
    let (done, progress) = watch::channel((0, None));
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let sender = || async {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if count.map_or_else(|| is_over.load(Ordering::Relaxed), |count| number >= count) {
                return;
            }
            let sent = SentBatch::until_accepted(key, &ingests, number).await;
            let begun = Some(sent.begun);
            batches.lock().push(sent);
            done.send_modify(|(done, latest)| (*done, *latest) = (*done + 1, begun.max(*latest)));
            if count.is_none() {
                tokio::time::sleep(PAUSE).await;
            }
        }
    };
    let fault = async {
        fault(Progress(progress)).await;
        is_over.store(true, Ordering::Relaxed);
    };
    futures_util::join!(join_all((0..SENDERS).map(|_| sender())), fault);
    Burst { batches: batches.into_inner() }
}

/// The events of a batch: every third one opens a lead.
fn events(number: usize) -> Vec<Event> {
    let kinds = ["contact.identified", "quote.requested", "enquiry.submitted"];
    let one = |i: usize| event(kinds[i % 3]).email(&format!("{}@example.com", i % PEOPLE));
    (number * EVENTS..(number + 1) * EVENTS).map(one).collect()
}

impl SentBatch {
    /// Sends the batch of this number to one ingest after the other until it succeeds.
    async fn until_accepted(key: &ApiKey, ingests: &[HttpClient], number: usize) -> Self {
        let (events, mut refusals) = (events(number), Vec::new());
        let (begun, results) = eventually("a batch succeeds", OUTAGE, async || {
            let begun = Instant::now();
            let ingest = &ingests[refusals.len() % ingests.len()];
            // A body can be signed once for each second, and an outage has more tries than seconds.
            let mut body = batch(&events);
            body.resize(body.len() + refusals.len(), b' ');
            match ingest.try_send(&key.events(body)).await {
                Ok(response) if response.status == 200 => {
                    return Ok((begun, response.json()["results"].as_array().expect("results").clone()));
                }
                Ok(response) => {
                    assert_eq!(response.status, 503, "{response:?}");
                    refusals.push(Some(text(&response.json()["code"]).to_owned()));
                }
                Err(HttpError(_)) => refusals.push(None),
            }
            Err(format!("{refusals:?}"))
        })
        .await;
        Self { begun, refusals, results }
    }

    /// Whether every refusal said that nothing was ingested.
    fn was_not_ingested_before(&self) -> bool {
        let codes = ["overloaded", "replay_store_unavailable"];
        self.refusals.iter().all(|code| code.as_deref().is_some_and(|code| codes.contains(&code)))
    }
}

impl Burst {
    /// The number of batches that were refused at first.
    pub(crate) fn refused(&self) -> usize {
        self.batches.iter().filter(|sent| !sent.refusals.is_empty()).count()
    }

    /// The number of batches that failed at first for another reason than `overloaded`, which only says that this machine is
    /// slower than the senders.
    pub(crate) fn interrupted(&self) -> usize {
        let is_interrupted = |code: &Option<String>| code.as_deref() != Some("overloaded");
        self.batches.iter().filter(|sent| sent.refusals.iter().any(is_interrupted)).count()
    }

    /// How long after `time` the first try began that succeeded.
    pub(crate) fn first_success_after(&self, time: Instant) -> Duration {
        let later = self.batches.iter().filter_map(|sent| sent.begun.checked_duration_since(time));
        later.min().expect("a batch succeeds after that time")
    }

    /// Checks that every event of the burst was applied exactly once, with the ids that were returned.
    pub(crate) async fn assert_applied_once(&self, world: &World) {
        let mut told: HashMap<&str, &Value> = HashMap::new();
        for sent in &self.batches {
            for result in &sent.results {
                let expected =
                    if sent.was_not_ingested_before() { &["accepted"][..] } else { &["accepted", "duplicate"] };
                assert!(expected.contains(&text(&result["status"])), "{result} after {:?}", sent.refusals);
                told.insert(text(&result["eventId"]), result);
            }
        }
        assert_eq!(told.len(), self.batches.len() * EVENTS, "events of several batches");
        world.until_depth("events", 0).await;
        assert_eq!(world.queues.depth("events.dead").await, 0, "dead letters");
        let clients: HashSet<&str> = told.values().map(|result| text(&result["clientId"])).collect();
        let enquiries = told.values().filter(|result| result["leadId"].is_string()).count();
        check_records(world, told.len(), clients.len(), enquiries).await;
        check_ids(world, &told).await;
    }
}

/// Waits until every event of the outbox is delivered to so many subscriptions.
pub(crate) async fn until_delivered(world: &World, subscriptions: usize) {
    eventually("everything is delivered", OUTAGE, async || {
        let query = format!(
            "SELECT count(*) FROM outbox o WHERE {subscriptions} <>
             (SELECT count(*) FROM deliveries d WHERE d.event_id = o.event_id AND d.state = 'delivered')"
        );
        match world.database.count(&query).await {
            0 => Ok(()),
            missing => Err(format!("{missing} events are not delivered")),
        }
    })
    .await;
}

async fn check_records(world: &World, total: usize, clients: usize, enquiries: usize) {
    assert!(clients <= PEOPLE && enquiries > total / 4, "{total}, {clients}, {enquiries}");
    let table = [
        ("count(*) FROM event_ledger", total),
        ("count(*) FROM timeline", total),
        ("count(DISTINCT event_id) FROM timeline", total),
        ("count(*) FROM clients", clients),
        ("count(*) FROM leads", enquiries),
        ("count(DISTINCT enquiry_number) FROM leads", enquiries),
        ("count(*) FROM trips", enquiries),
        ("count(*) FROM notifications", enquiries),
    ];
    for (what, expected) in table {
        let query = format!("SELECT {what} JOIN tenants USING (tenant_id) WHERE slug = 'acme'");
        let found = world.database.count(&query).await;
        assert_eq!(usize::try_from(found), Ok(expected), "{what}");
    }
}

async fn check_ids(world: &World, told: &HashMap<&str, &Value>) {
    let query = "SELECT event_id, client_id, lead_id, trip_id FROM event_ledger JOIN tenants USING (tenant_id)
         WHERE slug = 'acme'";
    for row in world.database.rows(query, &[]).await {
        let told = told[text(&row["event_id"])];
        for (column, field) in [("client_id", "clientId"), ("lead_id", "leadId"), ("trip_id", "tripId")] {
            assert_eq!(row[column], told[field], "{column} of {row}");
        }
    }
}
