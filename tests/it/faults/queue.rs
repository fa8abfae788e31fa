//! No worker, and a queue that is full (D9).

use serde_json::json;
use tests::event::batch;
use tests::{PATIENCE, World, event, eventually};

/// A world without workers whose ingest doesn't wait for one.
async fn without_workers(queue_length: &str) -> World {
    let world = World::with().workers(0).set("CONNECT_QUEUE_MAX_LENGTH", queue_length);
    world.set("CONNECT_REPLY_TIMEOUT", "300ms").start().await
}

/// Starts a worker, and an ingest that waits for it.
async fn bring_a_worker(world: &mut World) {
    world.set("CONNECT_REPLY_TIMEOUT", "30s");
    world.add_worker().await;
    world.restart_ingest().await;
}

#[tokio::test]
async fn without_a_worker_a_batch_times_out_is_applied_later_and_a_retry_reports_it() {
    let mut world = without_workers("100").await;
    let enquiry = event("enquiry.submitted").email("ana@example.com");
    let answer = world.send(std::slice::from_ref(&enquiry)).await;
    answer.assert_error(503, "processing_timeout");
    assert!(!answer.header("retry-after").is_empty(), "{answer:?}");
    assert_eq!(world.queues.depth("events").await, 1, "it is kept");

    bring_a_worker(&mut world).await;
    eventually("it is applied", PATIENCE, async || match world.pipeline(&[]).await.len() {
        1 => Ok(()),
        other => Err(format!("{other} enquiries")),
    })
    .await;
    let again = world.result(enquiry).await;
    let lead = world.pipeline(&[]).await.remove(0);
    assert_eq!((&again["status"], &again["leadId"]), (&json!("duplicate"), &lead["id"]));
    assert_eq!((&again["clientId"], &again["tripId"]), (&lead["clientId"], &lead["tripId"]));
}

#[tokio::test]
async fn a_retry_that_overtakes_its_first_try_is_applied_once() {
    let mut world = without_workers("100").await;
    let enquiry = event("enquiry.submitted").email("ana@example.com");
    for _ in 0..3 {
        world.send(std::slice::from_ref(&enquiry)).await.assert_error(503, "processing_timeout");
    }
    bring_a_worker(&mut world).await;
    eventually("the queue is empty", PATIENCE, async || match world.queues.depth("events").await {
        0 => Ok(()),
        left => Err(format!("{left} messages")),
    })
    .await;
    // The queue is empty when all is handed out.
    eventually("it is applied", PATIENCE, async || {
        match world.database.count("SELECT count(*) FROM event_ledger").await {
            1 => Ok(()),
            applied => Err(applied.to_string()),
        }
    })
    .await;
    assert_eq!(world.result(enquiry).await["status"], "duplicate");
    assert_eq!(world.pipeline(&[]).await.len(), 1);
    assert_eq!(world.database.count("SELECT count(*) FROM timeline").await, 1);
}

#[tokio::test]
async fn a_full_queue_refuses_and_what_it_refused_was_not_ingested() {
    let mut world = without_workers("5").await;
    let (mut kept, mut refused) = (Vec::new(), Vec::new());
    // The broker counts with a delay: a few more than five may get in.
    for _ in 0..100 {
        let contact = event("contact.identified").email("ana@example.com");
        let answer = world.send(std::slice::from_ref(&contact)).await;
        match tests::text(&answer.json()["code"]) {
            "processing_timeout" => kept.push(contact),
            "overloaded" => refused.push((contact, answer)),
            other => panic!("{other}"),
        }
        if refused.len() == 3 {
            break;
        }
    }
    assert!(kept.len() >= 5 && refused.len() == 3, "{} kept, {} refused", kept.len(), refused.len());
    for (_, answer) in &refused {
        answer.assert_error(503, "overloaded");
        assert!(!answer.header("retry-after").is_empty(), "{answer:?}");
    }
    bring_a_worker(&mut world).await;
    eventually("what was kept is applied", PATIENCE, async || {
        let applied = world.database.count("SELECT count(*) FROM event_ledger").await;
        if usize::try_from(applied) == Ok(kept.len()) { Ok(()) } else { Err(format!("{applied} applied")) }
    })
    .await;
    for (contact, _) in refused {
        world.accept(contact).await;
    }
    for contact in kept {
        let answer = world.http().send(&world.key.events(batch(&[contact]))).await;
        assert_eq!(answer.json()["duplicate"], 1);
    }
}

#[tokio::test]
async fn a_program_with_another_queue_length_uses_the_queue_that_is_there() {
    let mut world = World::with().set("CONNECT_QUEUE_MAX_LENGTH", "1000").start().await;
    world.set("CONNECT_QUEUE_MAX_LENGTH", "2000");
    world.restart_ingest().await;
    world.end_workers().await;
    world.add_worker().await;
    world.workers[0].until_ready().await;
    world.accept(event("contact.identified").email("ana@example.com")).await;
}
