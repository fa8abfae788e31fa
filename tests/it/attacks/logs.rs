//! Callers cannot flood the logs.

use crate::records::{break_inserts, get, post_request};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::time::Instant;
use tests::{MAX_WAIT, Program, QueuedMessage, World, batch, event, eventually, text};

fn lines(program: &Program, message: &str) -> Vec<Value> {
    let logs = program.logs();
    let found = logs.lines().filter(|line| line.contains(&format!("\"message\":\"{message}\"")));
    found.map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Lets `fail` happen, which says how often it did, until a log line with `message` counts those that were not logged. Checks that there
/// was at most one line a second, and that the lines count no more than happened.
async fn assert_limited(program: &Program, message: &str, mut fail: impl AsyncFnMut(u64) -> u64) {
    let (begun, mut happened) = (Instant::now(), 0);
    eventually("a line counts those before it", MAX_WAIT, async || {
        happened += fail(happened).await;
        let is_counted = lines(program, message).iter().any(|line| line["suppressed"].as_u64() > Some(0));
        if is_counted { Ok(()) } else { Err(format!("{happened} happened")) }
    })
    .await;
    let (lines, seconds) = (lines(program, message), begun.elapsed().as_secs() + 2);
    assert!((2..=seconds).contains(&(lines.len() as u64)), "{} lines of {message:?}", lines.len());
    let counted: u64 = lines.iter().map(|line| 1 + line["suppressed"].as_u64().unwrap_or_default()).sum();
    assert!(counted <= happened, "{counted} counted of {happened}: {message:?}");
}

#[tokio::test]
async fn what_callers_can_cause_is_logged_once_a_second_with_a_suppressed_count() {
    let world = World::start().await;
    let (ingest, worker) = (&world.ingests[0], &world.workers[0]);
    world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--reads-per-second", "100000"]).await;
    let enquiry = event("enquiry.submitted").email("ana@example.com").name("Ana");
    let lead = world.accept(enquiry).await["leadId"].clone();
    let trip = format!("/leads/{}/trip", text(&lead));
    world.database.execute("ALTER TABLE replay_entries RENAME TO kept").await;
    assert_limited(ingest, "request failed", async |_| {
        for _ in 0..10 {
            let request = world.key.events(batch(&[event("contact.identified").email("ana@example.com")]));
            world.http().send(&request).await.assert_error(503, "replay_store_unavailable");
        }
        10
    })
    .await;
    world.database.execute("ALTER TABLE kept RENAME TO replay_entries").await;
    world.database.execute("UPDATE trips SET brief = '[1]'").await;
    assert_limited(ingest, "a record does not match the schema; responding 500", async |_| {
        for _ in 0..10 {
            get(&world, &trip).await.assert_error(500, "internal_error");
        }
        10
    })
    .await;
    let forged: Vec<_> = (0..20).map(|_| QueuedMessage::new(b"{}").verbatim()).collect();
    assert_limited(worker, "message dead-lettered", async |_| {
        world.queues.publish_all("events", &forged).await;
        20
    })
    .await;
    let refused = r#"{"action":"archive","tenant":"acme","lead":"0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e"}"#;
    let actions: Vec<_> = (0..50).map(|_| QueuedMessage::new(refused.as_bytes()).verbatim()).collect();
    let message = "advisor action refused; replying with the reason if a reply is wanted";
    assert_limited(worker, message, async |_| {
        world.queues.publish_all("crm", &actions).await;
        50
    })
    .await;
    break_inserts(&world, "event_ledger").await;
    let events = vec![event("contact.identified").email("bo@example.com"); 20];
    assert_limited(worker, "event failed; reporting it as failed in the reply", async |_| {
        let results = world.results(&events).await;
        assert!(results.iter().all(|result| result["error"] == "internal_error"), "{results:?}");
        20
    })
    .await;
    assert_limited(worker, "records write failed; replying with an error", async |sent| {
        for at in sent..sent + 10 {
            let body = json!({"email": format!("{at}@example.com")});
            let post = post_request(&world.key, "/clients", &format!("key-{at}"), &body);
            world.http().send(&post).await.assert_error(500, "internal_error");
        }
        10
    })
    .await;
}

#[tokio::test]
async fn a_stalled_log_reader_delays_no_request_and_dropped_lines_are_counted() {
    let world = World::with().set("RUST_LOG", "trace").join().await;
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
