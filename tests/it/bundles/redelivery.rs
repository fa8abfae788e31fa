//! Bundles that are delivered more than once are applied once and get the same results (architecture: Invariant 2).

use super::{
    assert_own_results, enquiry_submitted, events_of, results, send_and_take_messages, send_during_a_publish,
    stallable,
};
use tests::event::batch;
use tests::{HttpRequest, Program, QueuedMessage, World, event};

/// Requests with a lead each.
fn enquiry_requests(world: &World, count: usize) -> Vec<HttpRequest> {
    (0..count).map(|i| world.key.events(batch(&[enquiry_submitted(&format!("{i}@example.com"))]))).collect()
}

#[tokio::test]
async fn a_redelivered_bundle_gets_its_original_results_and_is_applied_once() {
    let mut world = stallable().workers(0).start().await;
    let requests = enquiry_requests(&world, 5);
    let (first, rest) = requests.split_at(1);
    let mut early = None;
    let responses = send_and_take_messages(&mut world, first, rest, async |world, messages| {
        // The reply to the first delivery is lost.
        world
            .queues
            .publish_all("events", &messages.iter().map(QueuedMessage::without_reply).collect::<Vec<_>>())
            .await;
        early = Some(Program::worker(world.settings()).await);
        world.until_applied(5).await;
        world.queues.publish_all("events", &messages).await;
    })
    .await;
    assert_own_results(&requests, &responses);
    for what in ["leads", "timeline", "trips"] {
        assert_eq!(world.database.count(&format!("SELECT count(*) FROM {what}")).await, 5, "{what}");
    }
}

#[tokio::test]
async fn a_bundle_of_a_worker_killed_after_its_commit_gets_the_same_results_from_another() {
    let mut world = stallable().start().await;
    let requests = enquiry_requests(&world, 4);
    let (first, rest) = requests.split_at(1);
    let blocking = world.database.connect().await;
    // Units wait at the first table that they read.
    blocking.batch_execute("BEGIN; LOCK TABLE event_ledger IN ACCESS EXCLUSIVE MODE").await.expect("a lock");
    let settings = world.settings().to_vec();
    let mut worker = world.workers.remove(0);
    let proxies = world.proxies();
    let database = &world.database;
    let killing = async {
        super::until_published(&world.ingests[0], requests.len()).await;
        world.until_depth("events", 0).await;
        database.until_lock_wait().await;
        // Neither replies nor acknowledgements reach the broker.
        proxies.broker.stall();
        blocking.batch_execute("COMMIT").await.expect("a commit");
        world.until_applied(4).await;
        worker.kill();
        proxies.broker.restore();
        Program::worker(&settings).await
    };
    let (responses, _second) = futures_util::join!(send_during_a_publish(&world, first, rest), killing);
    assert_own_results(&requests, &responses);
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 4);
    let stored = world.database.rows("SELECT event_id, lead_id FROM event_ledger", &[]).await;
    for (request, response) in requests.iter().zip(&responses) {
        let (event, result) = (&events_of(request)[0], &results(response)[0]);
        let row = stored.iter().find(|row| row["event_id"] == event["eventId"]).expect("a row");
        assert_eq!(row["lead_id"], result["leadId"]);
    }
}

#[tokio::test]
async fn a_worker_killed_between_the_two_round_trips_of_a_bundle_applies_none_of_it() {
    let mut world = stallable().start().await;
    // The two lanes consume one message each.
    world.until_ready().await;
    let client = "INSERT INTO clients (tenant_id, client_id, name, email, email_key, client_type, created_at, updated_at)
        SELECT tenant_id, gen_random_uuid(), 'Ana', 'ana@gmail.com', 'ana@gmail.com', 'individual', now(), now() FROM tenants";
    world.database.execute(client).await;
    let mut requests = enquiry_requests(&world, 3);
    requests.push(world.key.events(batch(&[event("booking.abandoned").email("ana@gmail.com")])));
    let (first, rest) = requests.split_at(1);
    let blocking = world.database.connect().await;
    blocking.batch_execute("BEGIN; SELECT FROM clients FOR UPDATE").await.expect("the row is free");
    let settings = world.settings().to_vec();
    let mut worker = world.workers.remove(0);
    let (proxies, database) = (world.proxies(), &world.database);
    let count_is = async |condition: &str, expected: i64| {
        let query = format!(
            "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'worker' AND {condition}"
        );
        database.until_count(&query, expected).await;
    };
    let killing = async {
        super::until_published(&world.ingests[0], requests.len()).await;
        world.until_depth("events", 0).await;
        world.until_applied(1).await;
        // The unit of the bundle waits for 200 ms at a time, and this is a new wait.
        let waits = "wait_event_type = 'Lock' AND query_start > now() - interval '60 ms'";
        count_is(waits, 1).await;
        // The first round trip completes on the server, and the worker never gets the result.
        proxies.postgres.stall();
        blocking.batch_execute("COMMIT").await.expect("a commit");
        count_is("state = 'idle in transaction'", 1).await;
        worker.kill();
        proxies.postgres.restore();
        count_is("state = 'idle in transaction'", 0).await;
        assert_eq!(database.count("SELECT count(*) FROM event_ledger").await, 1);
        Program::worker(&settings).await
    };
    let (responses, _second) = futures_util::join!(send_during_a_publish(&world, first, rest), killing);
    assert_own_results(&requests, &responses);
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 3);
    assert_eq!(world.database.count("SELECT count(*) FROM event_ledger").await, 4);
}
