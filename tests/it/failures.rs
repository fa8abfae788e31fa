//! What fails inside fails alone (D8).

use futures_util::future::join_all;
use serde_json::{Value, json};
use tests::event::batch;
use tests::{Http, PATIENCE, World, event, eventually};

/// Has the database refuse what an event with `unlucky` in its id writes last.
async fn break_unlucky_events(world: &World) {
    world
        .database
        .execute(
            "CREATE FUNCTION refuse_unlucky() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 IF NEW.event_id LIKE '%unlucky%' THEN RAISE EXCEPTION 'secret detail of the inside'; END IF;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER unlucky BEFORE INSERT ON event_ledger FOR EACH ROW EXECUTE FUNCTION refuse_unlucky();",
        )
        .await;
}

/// Waits until the dead-letter queue holds so many messages: they get there a moment after they were refused.
async fn until_dead(world: &World, count: u32) {
    eventually("the dead letters are there", PATIENCE, async || {
        match world.queues.depth("events.dead").await {
            found if found == count => Ok(()),
            found => Err(format!("{found} of {count}")),
        }
    })
    .await;
}

/// Waits until so many events are in the ledger.
async fn until_applied(world: &World, count: i64) {
    eventually("the events are applied", PATIENCE, async || {
        let applied = world.database.count("SELECT count(*) FROM event_ledger").await;
        if applied == count { Ok(()) } else { Err(format!("{applied} of {count}")) }
    })
    .await;
}

fn statuses(results: &[Value]) -> Vec<&str> {
    results.iter().map(|result| tests::text(&result["status"])).collect()
}

#[tokio::test]
async fn an_event_that_fails_inside_fails_alone_and_says_nothing_of_the_inside() {
    let world = World::start().await;
    break_unlucky_events(&world).await;
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
    assert_eq!(world.database.count(of_b).await, 0, "nothing of the failed event stays");
    assert_eq!(world.queues.depth("events.dead").await, 0);
}

#[tokio::test]
async fn what_came_before_a_failed_event_counts_for_what_comes_after() {
    let world = World::start().await;
    break_unlucky_events(&world).await;
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
async fn a_failed_event_can_be_sent_again_once_its_cause_is_gone() {
    let world = World::start().await;
    break_unlucky_events(&world).await;
    let unlucky = event("enquiry.submitted").id("unlucky").email("ana@example.com");
    assert_eq!(world.result(unlucky.clone()).await["error"], "internal_error");
    world.database.execute("DROP TRIGGER unlucky ON event_ledger").await;
    world.accept(unlucky).await;
}

#[tokio::test]
async fn other_batches_go_through_beside_one_that_fails() {
    // All of them at once, however slow the machine is.
    let world = World::with().set("CONNECT_BACKLOG_TARGET", "60s").start().await;
    break_unlucky_events(&world).await;
    let requests = (0..30).map(async |i| {
        let mut events: Vec<_> =
            (0..10).map(|j| event("contact.identified").email(&format!("{i}-{j}@example.com"))).collect();
        if i % 10 == 5 {
            events[4] = events[4].clone().id(&format!("unlucky-{i}"));
        }
        let answer = world.http().send(&world.key.events(batch(&events))).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        (i, answer.json())
    });
    for (i, answer) in join_all(requests).await {
        let expected = if i % 10 == 5 { (json!(9), json!(1)) } else { (json!(10), json!(0)) };
        assert_eq!((answer["accepted"].clone(), answer["failed"].clone()), expected, "batch {i}: {answer}");
    }
    assert_eq!(world.database.count("SELECT count(*) FROM timeline").await, 297);
}

#[tokio::test]
async fn poison_ends_in_the_dead_letter_queue_and_the_worker_goes_on() {
    let world = World::start().await;
    let valid = batch(&[event("contact.identified").email("ana@example.com")]);
    let bodies: [&[u8]; 6] = [b"", b"\xff\xfe\x00", b"not json", b"{}", b"[1,2,3]", &valid];
    for body in bodies {
        // Without the metadata that ingest sends along, not even a valid batch can be applied.
        world.queues.publish("events", body).await;
    }
    until_dead(&world, 6).await;
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
}

#[tokio::test]
async fn poison_among_valid_batches_holds_none_of_them_up() {
    let world = World::start().await;
    world.workers[0].until_ready().await;
    world.workers[0].signal("STOP");
    let requests = (0..10)
        .map(async |i| world.send(&[event("contact.identified").email(&format!("{i}@example.com"))]).await);
    let poison = async {
        for _ in 0..10 {
            world.queues.publish("events", b"poison").await;
        }
        world.workers[0].signal("CONT");
    };
    let (answers, ()) = futures_util::join!(join_all(requests), poison);
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    until_dead(&world, 10).await;
}

#[tokio::test]
async fn a_message_that_was_damaged_on_its_way_is_a_dead_letter() {
    let mut world = World::with().workers(0).set("CONNECT_REPLY_TIMEOUT", "200ms").start().await;
    world
        .send(&[event("contact.identified").email("ana@example.com")])
        .await
        .assert_error(503, "processing_timeout");
    let message = world.queues.take("events").await.expect("the batch").without_reply();
    let half = &message.body[..message.body.len() / 2];
    let elsewhere = String::from_utf8_lossy(&message.body).replace("acme", "zeta");
    let too_many = batch(&vec![event("contact.identified").email("ana@example.com"); 101]);
    for body in [half, b"", b"[]", elsewhere.as_bytes(), &too_many] {
        world.queues.put("events", &message.with_body(body)).await;
    }
    world.add_worker().await;
    until_dead(&world, 5).await;
    for table in ["clients", "event_ledger"] {
        assert_eq!(world.database.count(&format!("SELECT count(*) FROM {table}")).await, 0, "{table}");
    }
    world.queues.put("events", &message).await;
    until_applied(&world, 1).await;
}

#[tokio::test]
async fn a_message_that_comes_twice_is_applied_once() {
    let mut world = World::with().workers(0).set("CONNECT_REPLY_TIMEOUT", "200ms").start().await;
    let events = ["a", "b"].map(|person| event("enquiry.submitted").email(&format!("{person}@example.com")));
    world.send(&events).await.assert_error(503, "processing_timeout");
    let message = world.queues.take("events").await.expect("the batch").without_reply();
    for _ in 0..3 {
        world.queues.put("events", &message).await;
    }
    world.add_worker().await;
    until_applied(&world, 2).await;
    world.queues.put("events", &message).await;
    eventually("the queue is empty", PATIENCE, async || match world.queues.depth("events").await {
        0 => Ok(()),
        left => Err(format!("{left} messages")),
    })
    .await;
    assert_eq!(world.workers[0].terminate().await.code(), Some(0), "what it was handed is done");
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 2);
    assert_eq!(world.database.count("SELECT count(*) FROM timeline").await, 2);
    assert_eq!(world.queues.depth("events.dead").await, 0);
}

#[tokio::test]
async fn a_message_of_an_agency_that_is_gone_holds_up_no_other() {
    let mut world = World::with().workers(0).set("CONNECT_REPLY_TIMEOUT", "200ms").start().await;
    let zeta = world.add_tenant("zeta").await;
    let body = batch(&[event("contact.identified").tenant("zeta").email("ana@example.com")]);
    world.http().send(&zeta.events(body)).await.assert_error(503, "processing_timeout");
    world
        .database
        .execute(
            "DELETE FROM api_keys USING tenants t WHERE t.tenant_id = api_keys.tenant_id AND slug = 'zeta'",
        )
        .await;
    world.database.execute("DELETE FROM tenants WHERE slug = 'zeta'").await;
    world
        .send(&[event("contact.identified").email("ana@example.com")])
        .await
        .assert_error(503, "processing_timeout");
    world.add_worker().await;
    until_applied(&world, 1).await;
}

#[tokio::test]
async fn a_record_that_cannot_be_read_fails_only_the_events_that_need_it() {
    let world = World::start().await;
    world.accept(event("contact.identified").email("damaged@example.com")).await;
    world.database.execute("UPDATE clients SET email = 'damaged beyond repair'").await;
    let events = [
        event("enquiry.submitted").email("a@example.com"),
        event("enquiry.submitted").email("damaged@example.com"),
        event("enquiry.submitted").email("b@example.com"),
    ];
    let results = world.results(&events).await;
    assert_eq!(statuses(&results), ["accepted", "failed", "accepted"]);
    assert_eq!(results[1]["error"], "internal_error");
    assert_eq!(world.queues.depth("events.dead").await, 0);
}

#[tokio::test]
async fn a_deadlock_with_somebody_else_is_over_by_itself() {
    let world = World::start().await;
    let people = ["a", "b"].map(|person| event("contact.identified").email(&format!("{person}@example.com")));
    world.results(&people).await;
    let mut other = world.database.connect().await;
    let theirs = other.transaction().await.expect("a transaction");
    let lock =
        |person: &str| format!("SELECT FROM clients WHERE email_key = '{person}@example.com' FOR UPDATE");
    theirs.batch_execute(&lock("b")).await.expect("nobody has it");
    let updates =
        ["a", "b"].map(|person| event("contact.updated").email(&format!("{person}@example.com")).name("New"));
    let deadlock = async {
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
             AND wait_event_type = 'Lock'";
        eventually("the worker waits", PATIENCE, async || match world.database.count(waits).await {
            0 => Err("nobody waits".to_owned()),
            _ => Ok(()),
        })
        .await;
        // One of the two is ended by the server, whichever it is.
        drop(theirs.batch_execute(&lock("a")).await);
        drop(theirs.rollback().await);
    };
    let (results, ()) = futures_util::join!(world.results(&updates), deadlock);
    assert_eq!(statuses(&results), ["accepted", "accepted"]);
}

/// Transactions of the worker that applied units of events, whatever their outcome.
async fn units(world: &World) -> f64 {
    let worker = world.workers.last().expect("a worker");
    worker.metrics().await.sum("connect_db_transactions_total", &[("name", "apply_unit")])
}

#[tokio::test]
async fn a_bad_event_costs_its_batch_few_transactions() {
    let world = World::start().await;
    break_unlucky_events(&world).await;
    let contact = |at: usize| event("contact.identified").email(&format!("{at}@example.com"));
    let mut events: Vec<_> = (0..100).map(contact).collect();
    events[70] = events[70].clone().id("unlucky");
    let before = units(&world).await;
    let results = world.results(&events).await;
    for (at, result) in results.iter().enumerate() {
        let expected = if at == 70 { "failed" } else { "accepted" };
        assert_eq!(result["status"], expected, "{at}: {result}");
    }
    // The unit, and at most two parts for each time that it is halved: 100, 50, 25, 13, 7, 4, 2, 1.
    let spent = units(&world).await - before;
    assert!(spent <= 15.0, "{spent} transactions");
}

#[tokio::test]
async fn a_bad_event_of_an_agency_costs_the_others_beside_it_few_transactions() {
    let mut world = World::with().workers(0).start().await;
    break_unlucky_events(&world).await;
    let zeta = world.add_tenant("zeta").await;
    let mut answers = Vec::new();
    for at in 0..20 {
        let contact = event("contact.identified").email(&format!("{at}@example.com"));
        let contact = if at == 13 { contact.id("unlucky") } else { contact };
        let request = match at % 2 {
            0 => world.key.events(batch(&[contact])),
            _ => zeta.events(batch(&[contact.tenant("zeta")])),
        };
        let http = Http::new(world.http().address());
        answers.push(tokio::spawn(async move { http.send(&request).await }));
        world.until_depth("events", at + 1).await;
    }
    world.add_worker().await;
    for (at, answer) in answers.into_iter().enumerate() {
        let answer = answer.await.expect("an answer").json();
        let expected = if at == 13 { "failed" } else { "accepted" };
        assert_eq!(answer["results"][0]["status"], expected, "{at}: {answer}");
    }
    let spent = units(&world).await;
    assert!(spent <= 12.0, "{spent} transactions");
}
