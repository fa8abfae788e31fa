//! Bundles that reach a worker more than once are applied once and answered as they were (architecture: Invariant 2).

use super::{
    assert_own_results, enquiry, events_of, results, send_during_a_publish, stallable, until_applied,
    with_messages,
};
use tests::event::batch;
use tests::{Outgoing, PATIENCE, Program, QueuedMessage, World, event, eventually};

/// Requests with an enquiry each.
fn enquiries(world: &World, count: usize) -> Vec<Outgoing> {
    (0..count).map(|i| world.key.events(batch(&[enquiry(&format!("{i}@example.com"))]))).collect()
}

#[tokio::test]
async fn a_bundle_that_is_delivered_again_is_answered_as_it_was_and_applied_once() {
    let mut world = stallable().workers(0).start().await;
    let requests = enquiries(&world, 5);
    let (first, rest) = requests.split_at(1);
    let mut early = None;
    let answers = with_messages(&mut world, first, rest, async |world, messages| {
        // The reply to the first delivery is lost.
        world
            .queues
            .put_all("events", &messages.iter().map(QueuedMessage::without_reply).collect::<Vec<_>>())
            .await;
        early = Some(Program::worker(world.settings()).await);
        until_applied(world, 5).await;
        world.queues.put_all("events", &messages).await;
    })
    .await;
    assert_own_results(&requests, &answers);
    for what in ["leads", "timeline", "trips"] {
        assert_eq!(world.database.count(&format!("SELECT count(*) FROM {what}")).await, 5, "{what}");
    }
}

#[tokio::test]
async fn a_worker_that_is_killed_after_it_applied_a_bundle_leaves_it_to_another_with_the_same_results() {
    let mut world = stallable().start().await;
    let requests = enquiries(&world, 4);
    let (first, rest) = requests.split_at(1);
    let blocking = world.database.connect().await;
    // Units wait at what they read first.
    blocking.batch_execute("BEGIN; LOCK TABLE event_ledger IN ACCESS EXCLUSIVE MODE").await.expect("a lock");
    let settings = world.settings().to_vec();
    let mut worker = world.workers.remove(0);
    let proxies = world.proxies();
    let waiting = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let database = &world.database;
    let killing = async {
        super::until_published(&world.ingests[0], requests.len()).await;
        eventually("the worker has the bundle", PATIENCE, async || {
            match world.queues.depth("events").await {
                0 => Ok(()),
                left => Err(format!("{left} messages")),
            }
        })
        .await;
        eventually("the worker waits", PATIENCE, async || match database.count(waiting).await {
            0 => Err("nobody waits".to_owned()),
            _ => Ok(()),
        })
        .await;
        // Neither replies nor acknowledgements leave it.
        proxies.broker.stall();
        blocking.batch_execute("COMMIT").await.expect("a commit");
        until_applied(&world, 4).await;
        worker.kill();
        proxies.broker.restore();
        Program::worker(&settings).await
    };
    let (answers, _second) = futures_util::join!(send_during_a_publish(&world, first, rest), killing);
    assert_own_results(&requests, &answers);
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 4);
    let stored = world.database.rows("SELECT event_id, lead_id FROM event_ledger", &[]).await;
    for (request, answer) in requests.iter().zip(&answers) {
        let (event, result) = (&events_of(request)[0], &results(answer)[0]);
        let row = stored.iter().find(|row| row["event_id"] == event["eventId"]).expect("a row");
        assert_eq!(row["lead_id"], result["leadId"]);
    }
}

#[tokio::test]
async fn a_worker_that_is_killed_between_the_two_round_trips_of_a_bundle_applies_nothing_of_it() {
    let mut world = stallable().start().await;
    // Two lanes take the two messages.
    world.until_ready().await;
    let client = "INSERT INTO clients (tenant_id, client_id, name, email, email_key, client_type, created_at, updated_at)
        SELECT tenant_id, gen_random_uuid(), 'Ana', 'ana@gmail.com', 'ana@gmail.com', 'individual', now(), now() FROM tenants";
    world.database.execute(client).await;
    let mut requests = enquiries(&world, 3);
    requests.push(world.key.events(batch(&[event("booking.abandoned").email("ana@gmail.com")])));
    let (first, rest) = requests.split_at(1);
    let blocking = world.database.connect().await;
    blocking.batch_execute("BEGIN; SELECT FROM clients FOR UPDATE").await.expect("the row is free");
    let settings = world.settings().to_vec();
    let mut worker = world.workers.remove(0);
    let (proxies, database) = (world.proxies(), &world.database);
    let count_is = async |what: &str, condition: &str, expected: i64| {
        let query = format!(
            "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'worker' AND {condition}"
        );
        eventually(what, PATIENCE, async || match database.count(&query).await {
            found if found == expected => Ok(()),
            found => Err(format!("{found} of {expected}")),
        })
        .await;
    };
    let killing = async {
        super::until_published(&world.ingests[0], requests.len()).await;
        world.until_depth("events", 0).await;
        count_is("the bundle's unit waits for the client", "wait_event_type = 'Lock'", 1).await;
        eventually("the first request is applied", PATIENCE, async || {
            match database.count("SELECT count(*) FROM event_ledger").await {
                1 => Ok(()),
                applied => Err(applied.to_string()),
            }
        })
        .await;
        // The first flight ends on the server, and the worker never hears of it.
        proxies.postgres.stall();
        blocking.batch_execute("COMMIT").await.expect("a commit");
        count_is("the first flight has ended", "state = 'idle in transaction'", 1).await;
        worker.kill();
        proxies.postgres.restore();
        count_is("the unit is rolled back", "state = 'idle in transaction'", 0).await;
        assert_eq!(database.count("SELECT count(*) FROM event_ledger").await, 1);
        Program::worker(&settings).await
    };
    let (answers, _second) = futures_util::join!(send_during_a_publish(&world, first, rest), killing);
    assert_own_results(&requests, &answers);
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 3);
    assert_eq!(world.database.count("SELECT count(*) FROM event_ledger").await, 4);
}
