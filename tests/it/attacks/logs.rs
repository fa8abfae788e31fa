//! Callers cannot flood the logs.

use crate::records::{break_inserts, get, post_request};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::time::Instant;
use tests::event::batch;
use tests::{MAX_WAIT, Program, QueuedMessage, World, event, eventually, text};

/// The log lines with this message.
fn lines(program: &Program, message: &str) -> Vec<Value> {
    let logs = program.logs();
    let found = logs.lines().filter(|line| line.contains(&format!("\"message\":\"{message}\"")));
    found.map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Checks that there was at most one line a second since `begun`, and that the lines count at most `happened` occurrences.
fn assert_limited(lines: &[Value], begun: Instant, happened: u64) {
    let seconds = begun.elapsed().as_secs() + 2;
    assert!((2..=seconds).contains(&(lines.len() as u64)), "{} lines in {seconds} s", lines.len());
    let counted: u64 = lines.iter().map(|line| 1 + line["suppressed"].as_u64().unwrap_or_default()).sum();
    assert!(counted <= happened, "{counted} counted of {happened}");
}

fn has_suppressed(lines: &[Value]) -> bool {
    lines.iter().any(|line| line["suppressed"].as_u64() > Some(0))
}

#[tokio::test]
async fn failed_requests_are_logged_once_a_second_with_a_suppressed_count() {
    let world = World::with().workers(0).start().await;
    world.database.execute("ALTER TABLE replay_entries RENAME TO kept").await;
    let (begun, ingest) = (Instant::now(), &world.ingests[0]);
    let mut sent = 0;
    let mut send_some = async || {
        for _ in 0..10 {
            let request = world.key.events(batch(&[event("contact.identified").email("ana@example.com")]));
            world.http().send(&request).await.assert_error(503, "replay_store_unavailable");
            sent += 1;
        }
        sent
    };
    let sent = eventually("a line counts those before it", MAX_WAIT, async || {
        let sent = send_some().await;
        if has_suppressed(&lines(ingest, "request failed")) { Ok(sent) } else { Err(format!("{sent} sent")) }
    })
    .await;
    assert_limited(&lines(ingest, "request failed"), begun, sent);
}

#[tokio::test]
async fn a_corrupt_record_is_logged_once_a_second_however_often_it_is_read() {
    let world = World::start().await;
    world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--reads-per-second", "100000"]).await;
    let enquiry = event("enquiry.submitted").email("ana@example.com").name("Ana");
    let lead = world.accept(enquiry).await["leadId"].clone();
    world.database.execute("UPDATE trips SET brief = '[1]'").await;
    let (begun, ingest, trip) = (Instant::now(), &world.ingests[0], format!("/leads/{}/trip", text(&lead)));
    let mut sent = 0;
    eventually("a line counts those before it", MAX_WAIT, async || {
        for _ in 0..10 {
            get(&world, &trip).await.assert_error(500, "internal_error");
            sent += 1;
        }
        let is_counted = has_suppressed(&lines(ingest, "a record does not match the schema; responding 500"));
        if is_counted { Ok(()) } else { Err(format!("{sent} sent")) }
    })
    .await;
    assert_limited(&lines(ingest, "a record does not match the schema; responding 500"), begun, sent);
}

#[tokio::test]
async fn forged_messages_are_logged_once_a_second_with_a_suppressed_count() {
    let world = World::start().await;
    let (begun, worker) = (Instant::now(), &world.workers[0]);
    let mut sent = 0;
    eventually("a line counts those before it", MAX_WAIT, async || {
        let forged: Vec<_> = (0..20).map(|_| QueuedMessage::new(b"{}").verbatim()).collect();
        world.queues.publish_all("events", &forged).await;
        sent += 20;
        let is_counted = has_suppressed(&lines(worker, "message dead-lettered"));
        if is_counted { Ok(()) } else { Err(format!("{sent} sent")) }
    })
    .await;
    assert_limited(&lines(worker, "message dead-lettered"), begun, sent);
    eventually("all are dead letters", MAX_WAIT * 3, async || {
        let found = u64::from(world.queues.depth("events.dead").await);
        if found == sent { Ok(()) } else { Err(format!("{found} of {sent}")) }
    })
    .await;
}

#[tokio::test]
async fn refused_advisor_actions_are_logged_once_a_second_with_a_suppressed_count() {
    let world = World::start().await;
    let (begun, worker) = (Instant::now(), &world.workers[0]);
    let refused = r#"{"action":"archive","tenant":"acme","lead":"0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e"}"#;
    let mut sent = 0;
    eventually("a line counts those before it", MAX_WAIT, async || {
        let actions: Vec<_> = (0..50).map(|_| QueuedMessage::new(refused.as_bytes()).verbatim()).collect();
        world.queues.publish_all("crm", &actions).await;
        sent += 50;
        let is_counted = has_suppressed(&lines(
            worker,
            "advisor action refused; replying with the reason if a reply is wanted",
        ));
        if is_counted { Ok(()) } else { Err(format!("{sent} sent")) }
    })
    .await;
    assert_limited(
        &lines(worker, "advisor action refused; replying with the reason if a reply is wanted"),
        begun,
        sent,
    );
}

#[tokio::test]
async fn failed_events_are_logged_once_a_second_with_a_suppressed_count() {
    let world = World::start().await;
    break_inserts(&world, "event_ledger").await;
    let (begun, worker) = (Instant::now(), &world.workers[0]);
    let mut sent = 0;
    eventually("a line counts those before it", MAX_WAIT, async || {
        let events = vec![event("contact.identified").email("ana@example.com"); 20];
        let results = world.results(&events).await;
        assert!(results.iter().all(|result| result["error"] == "internal_error"), "{results:?}");
        sent += 20;
        let is_counted = has_suppressed(&lines(worker, "event failed; reporting it as failed in the reply"));
        if is_counted { Ok(()) } else { Err(format!("{sent} sent")) }
    })
    .await;
    assert_limited(&lines(worker, "event failed; reporting it as failed in the reply"), begun, sent);
    let units = lines(worker, "unit of events failed; applying it again, in halves if it has several events");
    assert!(units.len() as u64 <= begun.elapsed().as_secs() + 2, "{} lines", units.len());
}

#[tokio::test]
async fn failed_records_writes_are_logged_once_a_second_with_a_suppressed_count() {
    let world = World::start().await;
    break_inserts(&world, "event_ledger").await;
    let (begun, worker) = (Instant::now(), &world.workers[0]);
    let mut sent = 0;
    eventually("a line counts those before it", MAX_WAIT, async || {
        let posts = (sent..sent + 10).map(|at| {
            let body = json!({"email": format!("{at}@example.com")});
            post_request(&world.key, "/clients", &format!("key-{at}"), &body)
        });
        let posts: Vec<_> = posts.collect();
        for response in join_all(posts.iter().map(|post| world.http().send(post))).await {
            response.assert_error(500, "internal_error");
        }
        sent += 10;
        let is_counted = has_suppressed(&lines(worker, "records write failed; replying with an error"));
        if is_counted { Ok(()) } else { Err(format!("{sent} sent")) }
    })
    .await;
    assert_limited(&lines(worker, "records write failed; replying with an error"), begun, sent);
    let units = lines(worker, "unit of records writes failed; applying its writes one by one");
    assert!(units.len() as u64 <= begun.elapsed().as_secs() + 2, "{} lines", units.len());
}

#[tokio::test]
async fn a_stalled_log_reader_delays_no_request_and_dropped_lines_are_counted() {
    let world = World::with().workers(0).set("RUST_LOG", "trace").start().await;
    let ingest = &world.ingests[0];
    let request = world.key.events("{}").replacing("x-connect-key", "ck_nobody");
    let send = async || {
        let sent = join_all((0..20).map(|_| world.http().send(&request))).await;
        sent.iter().for_each(|response| drop(response.assert_error(401, "unauthorized")));
    };
    let dropped = async || ingest.metrics().await.sum("connect_log_lines_dropped_total", &[]);
    assert_eq!(dropped().await, 0.0);
    ingest.stall_logs(true);
    eventually("lines are dropped", MAX_WAIT, async || {
        for _ in 0..10 {
            send().await;
        }
        if dropped().await > 0.0 { Ok(()) } else { Err("none was dropped".to_owned()) }
    })
    .await;
    // The pipe and the queue before it are full by now: lines are dropped, and requests still succeed.
    let before = dropped().await;
    send().await;
    assert!(dropped().await >= before + 20.0, "each request is at least a line");
    let seen = ingest.logs().len();
    ingest.stall_logs(false);
    eventually("lines arrive again", MAX_WAIT, async || {
        send().await;
        if ingest.logs().len() > 2 * seen { Ok(()) } else { Err("no new lines".to_owned()) }
    })
    .await;
}
