//! A bounded burst of batches during which something breaks, and the check that every event is there exactly once.
//!
//! The senders are partners as they should be: a batch that isn't answered with success is signed anew and sent again.

use futures_util::future::join_all;
use serde_json::Value;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tests::event::batch;
use tests::{ApiKey, Event, Http, HttpError, PATIENCE, World, event, eventually, text};
use tokio::sync::watch;

/// Batches of a burst.
pub(crate) const BATCHES: usize = 90;
const EVENTS: usize = 5;
const SENDERS: usize = 6;
/// Fewer than there are events, so that batches meet at the same clients.
const PEOPLE: usize = 40;
/// Longer than any server takes to come back.
const OUTAGE: Duration = Duration::from_secs(60);

/// What became of the batches.
pub(crate) struct Burst {
    batches: Vec<Sent>,
}

/// A batch that was answered with success in the end.
struct Sent {
    /// The tries before that, as the codes they were answered with; `None` where the connection broke.
    refusals: Vec<Option<String>>,
    results: Vec<Value>,
}

/// How many batches have been answered with success.
pub(crate) struct Progress(watch::Receiver<usize>);

impl Progress {
    /// Waits for a part of the burst.
    pub(crate) async fn until(&mut self, part: f64) {
        let wanted = (BATCHES as f64 * part) as usize;
        let reached = tokio::time::timeout(OUTAGE, self.0.wait_for(|done| *done >= wanted)).await;
        reached.unwrap_or_else(|_| panic!("the burst stalls")).expect("the burst runs");
    }
}

/// Sends the burst to these ingests while `fault` runs.
pub(crate) async fn send(key: &ApiKey, ingests: &[SocketAddr], fault: impl AsyncFnOnce(Progress)) -> Burst {
    let ingests: Vec<Http> = ingests.iter().copied().map(Http::new).collect();
    let batches = Mutex::new(Vec::new());
    let (done, progress) = watch::channel(0);
    let next = AtomicUsize::new(0);
    let sender = || async {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= BATCHES {
                return;
            }
            let sent = Sent::after_all(key, &ingests, &events(number)).await;
            batches.lock().expect("no sender panics").push(sent);
            done.send_modify(|done| *done += 1);
        }
    };
    futures_util::join!(join_all((0..SENDERS).map(|_| sender())), fault(Progress(progress)));
    Burst { batches: batches.into_inner().expect("no sender panics") }
}

/// The events of a batch: each third one opens an enquiry.
fn events(number: usize) -> Vec<Event> {
    let kinds = ["contact.identified", "quote.requested", "enquiry.submitted"];
    let one = |i: usize| event(kinds[i % 3]).email(&format!("{}@example.com", i % PEOPLE));
    (number * EVENTS..(number + 1) * EVENTS).map(one).collect()
}

impl Sent {
    /// Sends a batch until it is answered with success, to one ingest after the other.
    async fn after_all(key: &ApiKey, ingests: &[Http], events: &[Event]) -> Self {
        let mut refusals = Vec::new();
        let results = eventually("a batch goes through", OUTAGE, async || {
            let ingest = &ingests[refusals.len() % ingests.len()];
            match ingest.try_send(&key.events(batch(events))).await {
                Ok(answer) if answer.status == 200 => {
                    return Ok(answer.json()["results"].as_array().expect("results").clone());
                }
                Ok(answer) => {
                    assert_eq!(answer.status, 503, "{answer:?}");
                    refusals.push(Some(text(&answer.json()["code"]).to_owned()));
                }
                Err(HttpError(_)) => refusals.push(None),
            }
            Err(format!("{refusals:?}"))
        })
        .await;
        Self { refusals, results }
    }

    /// Whether every refusal said that nothing was ingested.
    fn was_surely_new(&self) -> bool {
        let codes = ["overloaded", "replay_store_unavailable"];
        self.refusals.iter().all(|code| code.as_deref().is_some_and(|code| codes.contains(&code)))
    }
}

impl Burst {
    /// How many batches were refused at first.
    pub(crate) fn refused(&self) -> usize {
        self.batches.iter().filter(|sent| !sent.refusals.is_empty()).count()
    }

    /// Checks that every event of the burst is there exactly once, with the ids that callers were told.
    pub(crate) async fn settle(&self, world: &World) {
        let mut told: HashMap<&str, &Value> = HashMap::new();
        for sent in &self.batches {
            for result in &sent.results {
                let expected =
                    if sent.was_surely_new() { &["accepted"][..] } else { &["accepted", "duplicate"] };
                assert!(expected.contains(&text(&result["status"])), "{result} after {:?}", sent.refusals);
                told.insert(text(&result["eventId"]), result);
            }
        }
        assert_eq!(told.len(), BATCHES * EVENTS);
        eventually("the queue is empty", PATIENCE, async || match world.queues.depth("events").await {
            0 => Ok(()),
            left => Err(format!("{left} messages")),
        })
        .await;
        assert_eq!(world.queues.depth("events.dead").await, 0, "dead letters");
        check_records(world).await;
        check_ids(world, &told).await;
    }
}

async fn check_records(world: &World) {
    let (total, enquiries) = (BATCHES * EVENTS, (0..BATCHES * EVENTS).filter(|i| i % 3 == 2).count());
    let table = [
        ("count(*) FROM event_ledger", total),
        ("count(*) FROM timeline", total),
        ("count(DISTINCT event_id) FROM timeline", total),
        ("count(*) FROM clients", PEOPLE),
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

/// What callers were told is what is stored.
async fn check_ids(world: &World, told: &HashMap<&str, &Value>) {
    let query =
        "SELECT event_id, client_id, lead_id, trip_id FROM event_ledger JOIN tenants USING (tenant_id)
         WHERE slug = 'acme'";
    for row in world.database.rows(query, &[]).await {
        let told = told[text(&row["event_id"])];
        for (column, field) in [("client_id", "clientId"), ("lead_id", "leadId"), ("trip_id", "tripId")] {
            assert_eq!(row[column], told[field], "{column} of {row}");
        }
    }
}
