//! An internal error affects only the event that causes it (D8).

use futures_util::future::join_all;
use serde_json::{Value, json};
use tests::{BREAK_UNLUCKY_EVENTS, HttpClient, World, batch, event, until_equal};

fn statuses(results: &[Value]) -> Vec<&str> {
    results.iter().map(|result| tests::text(&result["status"])).collect()
}

#[tokio::test]
async fn an_event_with_an_internal_error_fails_alone_and_reveals_no_details() {
    let world = World::shared().await;
    let events = [
        event("enquiry.submitted").email("a@example.com"),
        event("enquiry.submitted").id("unlucky").email("b@example.com"),
        event("enquiry.submitted").email("c@example.com"),
    ];
    let results = world.results(&events).await;
    assert_eq!(statuses(&results), ["accepted", "failed", "accepted"]);
    let failed = json!({"eventId": "unlucky", "status": "failed", "error": "internal_error"});
    assert_eq!(results[1], failed);
    assert_eq!(world.pipeline(&[]).await.len(), 2);
    let of_b = "SELECT count(*) FROM clients WHERE email_key = 'b@example.com'";
    assert_eq!(world.database.count(of_b).await, 0, "nothing of the failed event is stored");
}

#[tokio::test]
async fn events_before_a_failed_one_are_visible_to_events_after_it() {
    let world = World::shared().await;
    let ana = |kind: &str| event(kind).email("ana@example.com");
    let events = [
        ana("contact.identified").name("Ana"),
        ana("enquiry.submitted").id("unlucky"),
        ana("booking.abandoned"),
        ana("enquiry.submitted"),
        ana("booking.abandoned"),
    ];
    let results = world.results(&events).await;
    assert_eq!(statuses(&results), ["accepted", "failed", "accepted", "accepted", "accepted"]);
    assert_eq!(results[2].get("leadId"), None, "the failed event opened nothing");
    assert_eq!(results[4]["leadId"], results[3]["leadId"]);
    assert_eq!(world.timeline(&results[0]["clientId"]).await.len(), 4);
}

#[tokio::test]
async fn other_batches_succeed_beside_one_with_a_failed_event() {
    let world = World::shared().await;
    let requests = (0..30).map(async |i| {
        let mut events: Vec<_> =
            (0..10).map(|j| event("contact.identified").email(&format!("{i}-{j}@example.com"))).collect();
        if i % 10 == 5 {
            events[4] = events[4].clone().id(&format!("unlucky-{i}"));
        }
        (i, world.http().send(&world.key.events(batch(&events))).await.assert_status(200).json())
    });
    for (i, response) in join_all(requests).await {
        let expected = if i % 10 == 5 { (json!(9), json!(1)) } else { (json!(10), json!(0)) };
        let found = (response["accepted"].clone(), response["failed"].clone());
        assert_eq!(found, expected, "batch {i}: {response}");
    }
    assert_eq!(world.database.count("SELECT count(*) FROM timeline").await, 297);
}

#[tokio::test]
async fn poison_messages_are_dead_lettered_and_delay_no_valid_batch() {
    let world = World::start().await;
    let valid = batch(&[event("contact.identified").email("ana@example.com")]);
    let bodies: [&[u8]; 6] = [b"", b"\xff\xfe\x00", b"not json", b"{}", b"[1,2,3]", &valid];
    for body in bodies {
        // Without the metadata that ingest sends along, not even a valid batch can be applied.
        world.queues.publish("events", body).await;
    }
    world.until_depth("events.dead", 6).await;
    world.accept(event("contact.identified").email("bo@example.com")).await;
    assert_eq!(world.queues.depth("events").await, 0);
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1);
    let mut kept = Vec::new();
    while let Some(message) = world.queues.take("events.dead").await {
        kept.push(message.body);
    }
    kept.sort();
    let mut sent: Vec<Vec<u8>> = bodies.iter().map(|body| body.to_vec()).collect();
    sent.sort();
    assert_eq!(kept, sent, "as they were sent");
    world.workers[0].signal("STOP");
    let requests =
        (0..10).map(async |i| world.send(&[event("contact.identified").email(&format!("{i}@example.com"))]).await);
    let poison = async {
        for _ in 0..10 {
            world.queues.publish("events", b"poison").await;
        }
        world.workers[0].signal("CONT");
    };
    let (responses, ()) = futures_util::join!(join_all(requests), poison);
    assert!(responses.iter().all(|response| response.status == 200), "{responses:?}");
    world.until_depth("events.dead", 10).await;
}

#[tokio::test]
async fn of_waiting_messages_each_is_applied_once_and_a_damaged_one_or_one_of_a_deleted_tenant_never() {
    let mut world = World::with().workers(0).set("CONNECT_REPLY_TIMEOUT", "200ms").start().await;
    let events = ["a", "b"].map(|person| event("enquiry.submitted").email(&format!("{person}@example.com")));
    world.send(&events).await.assert_error(503, "processing_timeout");
    let message = world.queues.take("events").await.expect("the batch").without_reply();
    let zeta = world.add_tenant("zeta").await;
    let body = batch(&[event("contact.identified").tenant("zeta").email("ana@example.com")]);
    world.http().send(&zeta.events(body)).await.assert_error(503, "processing_timeout");
    let delete = "DELETE FROM api_keys USING tenants t WHERE t.tenant_id = api_keys.tenant_id AND slug = 'zeta';
        DELETE FROM tenants WHERE slug = 'zeta'";
    world.database.execute(delete).await;
    let half = &message.body[..message.body.len() / 2];
    let elsewhere = String::from_utf8_lossy(&message.body).replace("acme", "zeta");
    let too_many = batch(&vec![event("contact.identified").email("ana@example.com"); 101]);
    for body in [half, b"", b"[]", elsewhere.as_bytes(), &too_many] {
        world.queues.publish_message("events", &message.with_body(body)).await;
    }
    for _ in 0..3 {
        world.queues.publish_message("events", &message).await;
    }
    world.add_worker().await;
    world.until_applied(2).await;
    world.queues.publish_message("events", &message).await;
    until_equal("the queue is empty", 0, async || world.queues.depth("events").await).await;
    assert_eq!(world.workers[0].terminate().await.code(), Some(0), "it has finished its messages");
    assert_eq!(world.queues.depth("events.dead").await, 5);
    for table in ["clients", "leads", "timeline", "event_ledger"] {
        assert_eq!(world.database.count(&format!("SELECT count(*) FROM {table}")).await, 2, "{table}");
    }
}

#[tokio::test]
async fn a_corrupt_record_fails_only_the_events_that_need_it() {
    let world = World::shared().await;
    world.accept(event("contact.identified").email("damaged@example.com")).await;
    world.database.execute("UPDATE clients SET phone = repeat('1', 41)").await;
    let events = [
        event("enquiry.submitted").email("a@example.com"),
        event("enquiry.submitted").email("damaged@example.com"),
        event("enquiry.submitted").email("b@example.com"),
    ];
    let results = world.results(&events).await;
    assert_eq!(statuses(&results), ["accepted", "failed", "accepted"]);
    assert_eq!(results[1]["error"], "internal_error");
}

#[tokio::test]
async fn retries_after_a_deadlock_with_another_session() {
    let world = World::start().await;
    let people = ["a", "b"].map(|person| event("contact.identified").email(&format!("{person}@example.com")));
    world.results(&people).await;
    let mut other = world.database.connect().await;
    let theirs = other.transaction().await.expect("a transaction");
    let lock = |person: &str| format!("SELECT FROM clients WHERE email_key = '{person}@example.com' FOR UPDATE");
    theirs.batch_execute(&lock("b")).await.expect("nobody has it");
    let updates = ["a", "b"].map(|person| event("contact.updated").email(&format!("{person}@example.com")).name("New"));
    let deadlock = async {
        world.database.until_lock_wait().await;
        // The server aborts one of the two transactions, whichever it is.
        drop(theirs.batch_execute(&lock("a")).await);
        drop(theirs.rollback().await);
    };
    let (results, ()) = futures_util::join!(world.results(&updates), deadlock);
    assert_eq!(statuses(&results), ["accepted", "accepted"]);
    // Whichever was aborted: the other session changed nothing, and the retry applied both updates.
    assert_eq!(world.database.count("SELECT count(*) FROM clients WHERE name = 'New'").await, 2);
    assert_eq!(world.database.count("SELECT count(*) FROM event_ledger").await, 4);
}

/// Transactions of the worker that applied units of events, whatever their outcome.
async fn units(world: &World) -> f64 {
    let worker = world.workers.last().expect("a worker");
    worker.metrics().await.sum("connect_db_transactions_total", &[("name", "apply_unit")])
}

#[tokio::test]
async fn isolating_a_failing_event_takes_few_transactions() {
    let world = World::start().await;
    world.database.execute(BREAK_UNLUCKY_EVENTS).await;
    let contact = |at: usize| event("contact.identified").email(&format!("{at}@example.com"));
    let mut events: Vec<_> = (0..100).map(contact).collect();
    events[70] = events[70].clone().id("unlucky");
    let before = units(&world).await;
    let results = world.results(&events).await;
    for (at, result) in results.iter().enumerate() {
        let expected = if at == 70 { "failed" } else { "accepted" };
        assert_eq!(result["status"], expected, "{at}: {result}");
    }
    // The unit, and at most two halves at each level: 100, 50, 25, 13, 7, 4, 2, 1.
    let spent = units(&world).await - before;
    assert!(spent <= 15.0, "{spent} transactions");
    // It can be resent once the cause is fixed.
    world.database.execute("DROP TRIGGER unlucky ON event_ledger").await;
    world.accept(events[70].clone()).await;
}

#[tokio::test]
async fn isolating_a_failing_event_of_another_tenant_takes_few_transactions() {
    let mut world = World::with().workers(0).start().await;
    world.database.execute(BREAK_UNLUCKY_EVENTS).await;
    let zeta = world.add_tenant("zeta").await;
    let mut responses = Vec::new();
    for at in 0..20 {
        let contact = event("contact.identified").email(&format!("{at}@example.com"));
        let contact = if at == 13 { contact.id("unlucky") } else { contact };
        let request = match at % 2 {
            0 => world.key.events(batch(&[contact])),
            _ => zeta.events(batch(&[contact.tenant("zeta")])),
        };
        let http = HttpClient::new(world.http().address());
        responses.push(tokio::spawn(async move { http.send(&request).await }));
        world.until_depth("events", at + 1).await;
    }
    world.add_worker().await;
    for (at, response) in responses.into_iter().enumerate() {
        let response = response.await.expect("a response").json();
        let expected = if at == 13 { "failed" } else { "accepted" };
        assert_eq!(response["results"][0]["status"], expected, "{at}: {response}");
    }
    let spent = units(&world).await;
    assert!(spent <= 12.0, "{spent} transactions");
}
