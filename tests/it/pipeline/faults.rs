//! What happens to a unit between its two round trips.

use serde_json::json;
use tests::event::batch;
use tests::{PATIENCE, World, event, eventually, text};

/// Waits until a session of the worker is as `condition` says.
pub(super) async fn until_worker(world: &World, what: &str, condition: &str) {
    let query = format!(
        "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name = 'worker' AND {condition}"
    );
    eventually(what, PATIENCE, async || match world.database.count(&query).await {
        0 => Err("no such session".to_owned()),
        _ => Ok(()),
    })
    .await;
}

#[tokio::test]
async fn a_worker_killed_between_the_two_round_trips_applies_nothing_and_the_next_one_applies_it_once() {
    let mut world = World::with().through_proxies().start().await;
    let enquiry = event("enquiry.submitted").email("ana@example.com");
    let client = world.accept(enquiry).await["clientId"].clone();
    let other = world.database.connect().await;
    other.batch_execute("BEGIN; SELECT FROM clients FOR UPDATE").await.expect("the rows are free");
    let booking = event("booking.abandoned").email("ana@example.com");
    let request = world.key.events(batch(&[booking]));
    let sent = world.http().send(&request);
    let interrupt = async {
        until_worker(&world, "the worker waits for the client's row", "wait_event_type = 'Lock'").await;
        // The first flight ends on the server, and the worker never hears of it.
        world.proxies().postgres.stall();
        other.batch_execute("COMMIT").await.expect("a commit");
        until_worker(&world, "the first flight has ended", "state = 'idle in transaction'").await;
        world.workers[0].signal("KILL");
        world.proxies().postgres.restore();
    };
    let resume = async {
        interrupt.await;
        tests::Program::worker(world.settings()).await
    };
    let (answer, next) = futures_util::join!(sent, resume);
    world.workers.push(next);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["results"][0]["status"], "accepted", "{answer:?}");
    let entries = world.timeline(&client).await;
    assert_eq!(entries.len(), 2, "{entries:?}");
    let open = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    eventually("no transaction is open", PATIENCE, async || match world.database.count(open).await {
        0 => Ok(()),
        count => Err(format!("{count} are")),
    })
    .await;
}

#[tokio::test]
async fn an_identity_that_moves_while_its_client_is_being_locked_is_followed() {
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
        until_worker(&world, "the worker waits for the client's row", "wait_event_type = 'Lock'").await;
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
async fn two_units_that_change_one_client_both_take_effect() {
    let world = World::with().workers(2).start().await;
    world.until_ready().await;
    world.accept(event("contact.identified").email("ana@example.com").name("Ana")).await;
    let other = world.database.connect().await;
    other.batch_execute("BEGIN; SELECT FROM clients FOR UPDATE").await.expect("the rows are free");
    // Both have read the client before one of them writes it.
    let commit = async {
        let waiting = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'worker' AND wait_event_type = 'Lock'";
        eventually("both units wait for the row", PATIENCE, async || {
            match world.database.count(waiting).await {
                2 => Ok(()),
                count => Err(format!("{count} wait")),
            }
        })
        .await;
        other.batch_execute("COMMIT").await.expect("a commit");
    };
    // Of two callers: requests of one may travel in one message.
    let other_key = world.add_key("events:ingest").await;
    let updated = || event("contact.updated").email("ana@example.com");
    let name = world.key.events(batch(&[updated().name("Ana B")]));
    let phone = other_key.events(batch(&[updated().phone("+1 555 7")]));
    let (name, phone, ()) = futures_util::join!(world.http().send(&name), world.http().send(&phone), commit);
    let results = [name, phone].map(|answer| answer.json()["results"][0].clone());
    assert!(results.iter().all(|result| result["status"] == "accepted"), "{results:?}");
    let client = world.client(&results[0]["clientId"]).await;
    assert_eq!((&client["name"], &client["phone"]), (&json!("Ana B"), &json!("+1 555 7")));
}
