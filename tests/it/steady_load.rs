//! Batches that are sent until the test has seen enough, and the check that every event was applied exactly once.

use futures_util::future::join_all;
use serde_json::Value;
use std::collections::HashSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tests::event::batch;
use tests::{HttpClient, World, event, eventually, text, until_equal};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

const SENDERS: usize = 4;
const EVENTS: usize = 5;
/// Fewer than there are events, so that batches share clients.
const PEOPLE: usize = 60;
/// Between two batches of a sender, so that a fault is not too short for the load.
const PAUSE: Duration = Duration::from_millis(20);
/// Before a refused batch is sent again, as a partner does. Each try needs a signature of another second of the last minutes.
const BACKOFF: Duration = Duration::from_millis(500);
/// Maximum time that a batch may be refused, and that a test may wait for a success.
const OUTAGE: Duration = Duration::from_secs(180);

/// What the test can see of the load.
pub(crate) struct Load {
    is_over: watch::Sender<bool>,
    /// The latest begin of a batch that was confirmed.
    success: watch::Sender<Option<Instant>>,
    confirmed: Mutex<HashSet<String>>,
    sent: Mutex<usize>,
}

/// Sends batches to the first ingest of `world` while `faults` run. Returns the load.
pub(crate) async fn send(world: &World, faults: impl AsyncFnOnce(&Load)) -> Load {
    let load = Load {
        is_over: watch::Sender::new(false),
        success: watch::Sender::new(None),
        confirmed: Mutex::default(),
        sent: Mutex::default(),
    };
    let senders = join_all((0..SENDERS).map(|sender| load.send_batches(world, sender)));
    let faults = async {
        faults(&load).await;
        load.is_over.send_replace(true);
    };
    futures_util::join!(senders, faults);
    load
}

impl Load {
    /// Waits until a batch is confirmed that begins now or later; returns how long that took.
    pub(crate) async fn until_next_success(&self) -> Duration {
        let begun = Instant::now();
        let mut success = self.success.subscribe();
        let next = success.wait_for(|latest| latest.is_some_and(|latest| latest >= begun));
        timeout(OUTAGE, next).await.expect("a batch is confirmed in time").expect("the load runs");
        begun.elapsed()
    }

    async fn send_batches(&self, world: &World, sender: usize) {
        let ingest = HttpClient::new(world.http().address());
        let mut number = sender;
        while !*self.is_over.borrow() {
            let kinds = ["contact.identified", "quote.requested", "enquiry.submitted"];
            let one = |i: usize| event(kinds[i % 3]).email(&format!("{}@example.com", i % PEOPLE));
            let events: Vec<_> = (number * EVENTS..(number + 1) * EVENTS).map(one).collect();
            *self.sent.lock().expect("no sender panics") += EVENTS;
            let results: Vec<Value> = eventually("a batch is confirmed", OUTAGE, async || {
                let begun = Instant::now();
                let response = ingest.try_send(&world.key.events(batch(&events))).await;
                let response = response.map_err(|error| error.0)?;
                if response.status != 200 {
                    assert_eq!(response.status, 503, "{response:?}");
                    sleep(BACKOFF).await;
                    return Err(format!("{response:?}"));
                }
                self.success.send_replace(Some(begun));
                Ok(response.json()["results"].as_array().expect("results").clone())
            })
            .await;
            for result in results {
                assert!(["accepted", "duplicate"].contains(&text(&result["status"])), "{result}");
                let event_id = text(&result["eventId"]).to_owned();
                self.confirmed.lock().expect("no sender panics").insert(event_id);
            }
            number += SENDERS;
            sleep(PAUSE).await;
        }
    }

    /// Checks that every event was applied exactly once.
    pub(crate) async fn assert_applied_once(&self, world: &World) {
        until_equal("the queue is empty", 0, async || world.queues.depth("events").await).await;
        assert_eq!(world.queues.depth("events.dead").await, 0, "dead letters");
        let confirmed = self.confirmed.lock().expect("no sender panics").clone();
        let sent = *self.sent.lock().expect("no sender panics");
        assert_eq!(confirmed.len(), sent, "every batch was confirmed in the end");
        let count = |query: &str| {
            let query = query.to_owned();
            async move { usize::try_from(world.database.count(&query).await).expect("a count") }
        };
        let ledger = world.database.rows("SELECT event_id FROM event_ledger", &[]).await;
        let applied: HashSet<String> = ledger.iter().map(|row| text(&row["event_id"]).to_owned()).collect();
        assert_eq!(confirmed.symmetric_difference(&applied).count(), 0, "confirmed and applied events");
        for (what, expected) in
            [("count(*) FROM timeline", sent), ("count(DISTINCT event_id) FROM timeline", sent)]
        {
            assert_eq!(count(&format!("SELECT {what}")).await, expected, "{what}");
        }
        let enquiries =
            count("SELECT count(*) FROM event_ledger WHERE event_type = 'enquiry.submitted'").await;
        for table in ["leads", "trips", "notifications"] {
            assert_eq!(count(&format!("SELECT count(*) FROM {table}")).await, enquiries, "{table}");
        }
    }

    /// The number of events that were sent.
    pub(crate) fn events(&self) -> usize {
        *self.sent.lock().expect("no sender panics")
    }
}
