//! Faults between the two round trips of a unit.

use serde_json::json;
use tests::event::batch;
use tests::{World, event, text, until_equal};

#[tokio::test]
async fn a_worker_killed_between_the_round_trips_applies_nothing_and_the_next_applies_it_once() {
    let mut world = World::with().through_proxies().start().await;
    let enquiry = event("enquiry.submitted").email("ana@example.com");
    let client = world.accept(enquiry).await["clientId"].clone();
    let other = world.database.connect().await;
    other.batch_execute("BEGIN; SELECT FROM clients FOR UPDATE").await.expect("the rows are free");
    let booking = event("booking.abandoned").email("ana@example.com");
    let request = world.key.events(batch(&[booking]));
    let sent = world.http().send(&request);
    let interrupt = async {
        world.database.until_lock_wait_of("worker").await;
        // The first round trip completes on the server, and the worker never gets the result.
        world.proxies().postgres.stall();
        other.batch_execute("COMMIT").await.expect("a commit");
        world.database.until_session_of("worker", "state = 'idle in transaction'").await;
        world.workers[0].signal("KILL");
        world.proxies().postgres.restore();
    };
    let resume = async {
        interrupt.await;
        tests::Program::worker(world.settings()).await
    };
    let (response, next) = futures_util::join!(sent, resume);
    world.workers.push(next);
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(response.json()["results"][0]["status"], "accepted", "{response:?}");
    let entries = world.timeline(&client).await;
    assert_eq!(entries.len(), 2, "{entries:?}");
    let open = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    until_equal("no transaction is open", 0, async || world.database.count(open).await).await;
}

#[tokio::test]
async fn follows_an_identity_that_moves_to_another_client_meanwhile() {
    let world = World::start().await;
    let submitted = |email: &str| event("enquiry.submitted").email(email);
    let before = world.accept(submitted("ana@example.com")).await;
    let after = world.accept(submitted("ben@example.com")).await;
    let (from, to) = (text(&before["clientId"]), text(&after["clientId"]));
    let other = world.database.connect().await;
    let mv = format!(
        "BEGIN;
         UPDATE clients SET email = NULL, email_key = NULL WHERE client_id = '{from}';
         UPDATE clients SET email = 'ana@example.com', email_key = 'ana@example.com' WHERE client_id = '{to}'"
    );
    other.batch_execute(&mv).await.expect("the rows are free");
    let commit = async {
        world.database.until_lock_wait_of("worker").await;
        other.batch_execute("COMMIT").await.expect("a commit");
    };
    let abandoned = world.result(event("booking.abandoned").email("ana@example.com"));
    let (result, ()) = futures_util::join!(abandoned, commit);
    assert_eq!(
        (&result["status"], &result["clientId"], &result["leadId"]),
        (&json!("accepted"), &after["clientId"], &after["leadId"]),
        "{result}"
    );
}

#[tokio::test]
async fn two_concurrent_units_on_one_client_both_take_effect() {
    let world = World::with().workers(2).start().await;
    world.until_ready().await;
    world.accept(event("contact.identified").email("ana@example.com").name("Ana")).await;
    let other = world.database.connect().await;
    other.batch_execute("BEGIN; SELECT FROM clients FOR UPDATE").await.expect("the rows are free");
    // Both have read the client before one of them writes it.
    let commit = async {
        let waiting = "application_name = 'worker' AND wait_event_type = 'Lock'";
        world.database.until_sessions(waiting, 2).await;
        other.batch_execute("COMMIT").await.expect("a commit");
    };
    // Of two callers: requests of one may travel in one message.
    let other_key = world.add_key("events:ingest").await;
    let updated = || event("contact.updated").email("ana@example.com");
    let name = world.key.events(batch(&[updated().name("Ana B")]));
    let phone = other_key.events(batch(&[updated().phone("+1 555 7")]));
    let (name, phone, ()) = futures_util::join!(world.http().send(&name), world.http().send(&phone), commit);
    let results = [name, phone].map(|response| response.json()["results"][0].clone());
    assert!(results.iter().all(|result| result["status"] == "accepted"), "{results:?}");
    let client = world.client(&results[0]["clientId"]).await;
    assert_eq!((&client["name"], &client["phone"]), (&json!("Ana B"), &json!("+1 555 7")));
}
