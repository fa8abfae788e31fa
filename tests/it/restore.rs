//! A database that was restored, beside a broker that is empty, older or newer (docs/restore.md). What an empty one
//! held is lost, and nothing else; an older one delivers messages again that were processed; beside a newer one, what
//! was committed after the backup is lost, and what waits in the broker is not.

use serde_json::json;
use std::path::PathBuf;
use tests::dedicated_servers::{Broker, Postgres, StopMode};
use tests::{Behavior, QueuedMessage, Receiver, World, WorldBuilder, event, text};

/// A world with a dispatcher and a subscription of `receiver`, whose first attempts fail.
async fn world(builder: WorldBuilder, receiver: &Receiver) -> World {
    receiver.respond_to_all(Behavior::status(500));
    let world = builder
        .dispatchers(1)
        .set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")
        .set("CONNECT_WEBHOOK_ATTEMPTS", "100")
        .set("CONNECT_WEBHOOK_BACKOFF_BASE", "1s")
        .set("CONNECT_WEBHOOK_BACKOFF_CAP", "1s")
        .start()
        .await;
    world.subscribe(&receiver.url("/hooks")).await;
    world
}

/// Starts one of each program. The worker declares the queues, which ingest may not.
async fn start_programs(world: &mut World) {
    world.add_worker().await;
    world.add_ingest().await;
    world.add_dispatcher().await;
    world.until_ready().await;
}

/// Sends an event that no worker applies, and waits until it is in the queue.
async fn leave_in_queue(world: &mut World, event: &tests::Event) {
    world.end_workers().await;
    world.restart_ingest_with("CONNECT_REPLY_TIMEOUT", "300ms").await;
    world.set("CONNECT_REPLY_TIMEOUT", "30s");
    world.send(std::slice::from_ref(event)).await.assert_error(503, "processing_timeout");
    world.until_depth("events", 1).await;
}

/// An enquiry of a person of that name.
fn enquiry(name: &str) -> tests::Event {
    event("enquiry.submitted").email(&format!("{name}@example.com"))
}

/// A file for a dump, which does not exist yet.
fn dump_file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("connect-{}-{name}.dump", std::process::id()))
}

/// The ids of the events that the receiver got, each once, sorted.
fn received(receiver: &Receiver) -> Vec<String> {
    let events = receiver.received();
    let mut ids: Vec<String> = events.iter().map(|one| text(&one.json()["eventId"]).to_owned()).collect();
    ids.sort();
    ids.dedup();
    ids
}

/// The ids of the applied events and actions, sorted.
async fn applied(world: &World) -> Vec<String> {
    let rows = world.database.rows("SELECT event_id FROM event_ledger ORDER BY event_id", &[]).await;
    rows.iter().map(|row| text(&row["event_id"]).to_owned()).collect()
}

#[tokio::test]
async fn beside_an_empty_broker_webhooks_go_on_and_unapplied_events_are_lost() {
    let (receiver, server) = (Receiver::http(), Postgres::start().await);
    let mut world = world(World::with(), &receiver).await;
    let ana = enquiry("ana").id("ana");
    let confirmed = world.accept_with_retries(ana.clone()).await;
    // Its next attempt waits.
    world.database.until_count("SELECT count(*) FROM deliveries WHERE state = 'pending' AND attempts > 0", 1).await;
    let bo = enquiry("bo").id("bo");
    leave_in_queue(&mut world, &bo).await;
    world.kill_programs();
    let file = dump_file("empty");
    world.database.dump(&file).await;
    let restored = world.database.restored(&file, &server).await;
    world.use_database(restored);
    world.use_empty_queues();
    let first = receiver.received().remove(0);
    receiver.clear_received();
    receiver.respond_to_all(Behavior::status(204));
    start_programs(&mut world).await;

    // The delivery that waited is sent under the same ids.
    world.database.until_count("SELECT count(*) FROM deliveries WHERE state = 'delivered'", 1).await;
    let sent = receiver.received().remove(0);
    assert_eq!(sent.header("x-connect-delivery"), first.header("x-connect-delivery"));
    assert_eq!(sent.body, first.body);
    // What was confirmed is there.
    let again = world.accept_with_retries(ana).await;
    assert_eq!((text(&again["status"]), &again["leadId"]), ("duplicate", &confirmed["leadId"]));
    // What waited to be applied is lost: its partner, who got 503, sends it again.
    assert_eq!(applied(&world).await, ["ana"]);
    assert_eq!(world.accept_with_retries(bo).await["status"], "accepted");
    drop(std::fs::remove_file(file));
}

#[tokio::test]
async fn beside_a_newer_broker_what_was_committed_after_the_backup_is_lost_until_it_is_resent() {
    let (receiver, server) = (Receiver::http(), Postgres::start().await);
    let mut world = world(World::with(), &receiver).await;
    world.accept_with_retries(enquiry("ana").id("ana")).await;
    let pending = "SELECT count(*) FROM deliveries WHERE state = 'pending' AND attempts > 0";
    world.database.until_count(pending, 1).await;
    let file = dump_file("newer");
    world.database.dump(&file).await;

    let bo = enquiry("bo").id("bo");
    let lost = world.accept_with_retries(bo.clone()).await;
    world.database.until_count(pending, 2).await;
    let webhook = "SELECT event_id::text AS id FROM outbox ORDER BY event_id DESC LIMIT 1";
    let webhook = world.database.rows(webhook, &[]).await.remove(0)["id"].clone();
    leave_in_queue(&mut world, &enquiry("cy").id("cy")).await;
    world.kill_programs();
    let restored = world.database.restored(&file, &server).await;
    world.use_database(restored);
    let last_number = world.database.count("SELECT max(last)::bigint FROM enquiry_counters").await;
    receiver.clear_received();
    receiver.respond_to_all(Behavior::status(204));
    start_programs(&mut world).await;

    // What waited in the broker is applied. The counter of enquiry numbers is as old as the backup.
    world.database.until_count("SELECT count(*) FROM event_ledger", 2).await;
    assert_eq!(applied(&world).await, ["ana", "cy"], "what was confirmed after the backup is lost");
    let number = "SELECT split_part(enquiry_number, '-', 3)::bigint FROM leads
        JOIN event_ledger USING (tenant_id, lead_id) WHERE event_id = 'cy'";
    assert_eq!(world.database.count(number).await, last_number + 1, "given out again");
    // The webhooks of what is there are delivered. That of the lost enquiry is lost with it.
    let delivered = "SELECT count(*) FROM deliveries WHERE state = 'delivered'";
    world.database.until_count(delivered, 2).await;
    assert!(receiver.received().iter().all(|request| request.json()["eventId"] != webhook), "{webhook}");
    // Resent, it is applied as if it were new.
    let resent = world.accept_with_retries(bo).await;
    assert_eq!(resent["status"], "accepted");
    assert_ne!(resent["leadId"], lost["leadId"]);
    world.database.until_count(delivered, 3).await;
    drop(std::fs::remove_file(file));
}

/// Queues that have messages at some time of the test.
const QUEUES: [&str; 2] = ["events", "crm"];

fn open_lead(name: &str) -> QueuedMessage {
    let body = json!({"action": "open-lead", "tenant": "acme", "email": format!("{name}@example.com")});
    QueuedMessage::new(body.to_string().as_bytes())
}

async fn leads_of(world: &World, name: &str) -> i64 {
    let query = format!(
        "SELECT count(*) FROM leads JOIN clients USING (tenant_id, client_id) WHERE email = '{name}@example.com'"
    );
    world.database.count(&query).await
}

#[tokio::test]
async fn beside_an_older_broker_nothing_is_repeated_except_actions_without_a_message_id() {
    let (broker, receiver) = (Broker::start().await, Receiver::http());
    let mut world = world(World::with().on_broker(broker.url()), &receiver).await;
    world.accept_with_retries(enquiry("ana").id("ana")).await;
    world.database.until_count("SELECT count(*) FROM deliveries WHERE state = 'pending' AND attempts > 0", 1).await;
    world.dispatchers.clear();
    leave_in_queue(&mut world, &enquiry("bo").id("bo")).await;
    world.queues.publish_message("crm", &open_lead("cy").with_id("cy")).await;
    world.queues.publish_message("crm", &open_lead("di")).await;
    world.kill_programs();
    broker.stop(StopMode::Fast).await;
    broker.back_up();
    broker.start_again().await;

    receiver.respond_to_all(Behavior::status(204));
    start_programs(&mut world).await;
    let settled = "SELECT count(*) FROM deliveries WHERE state = 'delivered'";
    world.database.until_count(settled, 4).await;
    let (first_applied, first_received) = (applied(&world).await, received(&receiver));
    assert_eq!((first_applied.len(), first_received.len()), (4, 4));
    world.kill_programs();
    broker.stop(StopMode::Fast).await;
    broker.restore();
    broker.start_again().await;
    receiver.clear_received();
    start_programs(&mut world).await;

    for queue in QUEUES {
        world.until_depth(queue, 0).await;
    }
    // The action without an id is performed again, and its event is sent.
    world.database.until_count(settled, 5).await;
    world.end_workers().await;
    let second = applied(&world).await;
    assert_eq!(second.len(), 5, "{second:?}");
    assert!(first_applied.iter().all(|id| second.contains(id)), "{second:?}");
    for (name, leads) in [("ana", 1), ("bo", 1), ("cy", 1), ("di", 2)] {
        assert_eq!(leads_of(&world, name).await, leads, "{name}");
    }
    let again = received(&receiver);
    assert_eq!(again.len(), 1, "only the new event is sent");
    assert!(!first_received.contains(&again[0]), "{again:?}");
}
