//! Events about a person arrive while the person is erased.

use super::{AFTER, BEFORE, at, erase, identified, tables_with};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use tests::{Event, MAX_WAIT, World, event, eventually};

const MARKER: &str = "zq8marker";
/// Tasks that send events, and the events of one batch.
const SENDERS: u32 = 4;
const BATCH: u32 = 5;

fn older(number: u32) -> Event {
    let kinds =
        ["contact.identified", "enquiry.submitted", "traveller.discovery_upserted", "booking.started"];
    let kind = kinds[usize::try_from(number).expect("few") % kinds.len()];
    let payload = json!({"message": MARKER, "discovery": {"tripNotes": MARKER}});
    at(BEFORE, event(kind)).email("zq8marker@example.com").name(MARKER).payload(payload)
}

/// Sends batches until it is told to stop, and returns the results.
async fn send(world: &World, stop: &AtomicBool) -> Vec<Value> {
    let (mut results, mut number) = (Vec::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        let batch: Vec<Event> = (0..BATCH).map(|at| older(number + at)).collect();
        number += BATCH;
        let response = world.send(&batch).await;
        // A queue may be full for a moment.
        if response.status == 200 {
            results.extend(response.json()["results"].as_array().expect("results").clone());
        }
    }
    results
}

#[tokio::test]
async fn events_about_a_person_who_is_being_erased_do_not_bring_the_person_back() {
    let world = World::with().workers(2).start().await;
    events_that_arrive_during_an_erasure_do_not_bring_the_person_back(&world).await;
    a_unit_that_has_begun_is_finished_first_and_its_effects_are_erased(&world).await;
    an_event_that_waits_for_the_erasure_sees_it(&world).await;
}

async fn events_that_arrive_during_an_erasure_do_not_bring_the_person_back(world: &World) {
    let client = world.accept(older(0)).await["clientId"].clone();
    let stop = AtomicBool::new(false);
    let erasing = async {
        eventually("events arrive", MAX_WAIT, async || {
            let applied = world.database.count("SELECT count(*) FROM timeline").await;
            if applied > 40 { Ok(()) } else { Err(applied.to_string()) }
        })
        .await;
        let receipt = erase(&world.connectctl, &client).await;
        // Events that are sent now are refused.
        let refused = world.result(older(0)).await;
        stop.store(true, Ordering::Relaxed);
        (receipt, refused)
    };
    let senders = futures_util::future::join_all((0..SENDERS).map(|_| send(world, &stop)));
    let ((receipt, refused), results) = futures_util::join!(erasing, senders);
    assert_eq!(refused["error"], "contact_erased", "{refused}");
    let results: Vec<Value> = results.into_iter().flatten().collect();
    let accepted = results.iter().filter(|result| result["status"] == "accepted").count();
    let of_nobody_else = |result: &Value| result["clientId"].is_null() || result["clientId"] == client;
    assert!(accepted > 0 && results.iter().all(of_nobody_else), "{results:?}");
    // What was accepted was removed. Requests that got no response in time may have been applied as well.
    let removed = receipt["removed"]["timeline"].as_u64().expect("a number");
    assert!(removed > accepted as u64, "{removed} {accepted}");
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 0);
    assert_eq!(tables_with(world, MARKER).await, Vec::<String>::new());
}

async fn a_unit_that_has_begun_is_finished_first_and_its_effects_are_erased(world: &World) {
    let client = world.accept(identified().email("zq8marker-2@example.com")).await["clientId"].clone();
    // The unit waits for the lock of its second round trip, after it has read the client.
    let other = world.database.connect().await;
    other.batch_execute("BEGIN; LOCK TABLE timeline IN SHARE MODE").await.expect("a lock");
    let sent = world.result(identified().email("zq8marker-2@example.com").payload(json!({"note": MARKER})));
    let erased = async {
        world.database.until_lock_wait_of("worker").await;
        let erase = erase(&world.connectctl, &client);
        let free = async {
            world.database.until_lock_wait_of("connectctl").await;
            other.batch_execute("COMMIT").await.expect("a commit");
        };
        futures_util::join!(erase, free).0
    };
    let (result, receipt) = futures_util::join!(sent, erased);
    assert_eq!(result["status"], "accepted", "{result}");
    assert_eq!(receipt["removed"]["timeline"], 2, "{receipt}");
    assert_eq!(tables_with(world, MARKER).await, Vec::<String>::new());
}

async fn an_event_that_waits_for_the_erasure_sees_it(world: &World) {
    let client = world.accept(identified().email("zq8marker-3@example.com")).await["clientId"].clone();
    // The erasure holds its lock and waits for the client's row.
    let other = world.database.connect().await;
    other.batch_execute("BEGIN; SELECT FROM clients FOR UPDATE").await.expect("a lock");
    let erase = erase(&world.connectctl, &client);
    let sent = async {
        world.database.until_lock_wait_of("connectctl").await;
        let events = [
            identified().email("zq8marker-3@example.com"),
            at(AFTER, event("contact.identified")).email("zq8marker-3@example.com"),
        ];
        let send = world.results(&events);
        let free = async {
            world.database.until_lock_wait_of("worker").await;
            other.batch_execute("COMMIT").await.expect("a commit");
        };
        futures_util::join!(send, free).0
    };
    let (_, results) = futures_util::join!(erase, sent);
    assert_eq!(results[0]["error"], "contact_erased", "{results:?}");
    assert_eq!(results[1]["status"], "accepted", "{results:?}");
    assert_ne!(results[1]["clientId"], client);
    assert_eq!(world.timeline(&results[1]["clientId"]).await.len(), 1);
}
