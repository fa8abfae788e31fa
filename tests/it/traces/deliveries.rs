//! Traces of waiting, replayed and retried deliveries, and of units of several requests.

use super::{SENT, TRACE, enquiry_submitted, lines, lines_with, request, request_id, trace_of, verbose, waiting};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tests::{Behavior, MAX_WAIT, Receiver, eventually, text};

#[tokio::test]
async fn a_waiting_or_replayed_delivery_keeps_its_trace() {
    let mut world = verbose().set("CONNECT_WEBHOOK_ATTEMPTS", "1").start().await;
    let receiver = Receiver::http();
    receiver.respond_to_next("/hooks", [Behavior::status(500)]);
    world.subscribe(&receiver.url("/hooks")).await;
    let subscriptions = world.connectctl.list(&["subscription", "list", "--tenant", "acme"]).await;
    let subscription = text(&subscriptions[0]["id"]);
    world.connectctl.json(&["subscription", "pause", subscription]).await;
    let response = world.http().send(&request(&world, enquiry_submitted()).with("traceparent", SENT)).await;
    assert_eq!(response.status, 200, "{response:?}");
    world.database.until_count("SELECT count(*) FROM deliveries WHERE state = 'pending'", 1).await;
    // The new dispatcher knows the trace only from the database.
    world.restart_dispatcher().await;
    assert_eq!(receiver.count(), 0);
    world.connectctl.json(&["subscription", "resume", subscription]).await;
    receiver.wait_for(1).await;
    lines(&world.dispatchers[0], "webhook attempts used up; dead-lettering the delivery").await;
    let dead = eventually("the delivery is dead", MAX_WAIT, async || {
        let listed = world.connectctl.list(&["delivery", "list", "--tenant", "acme", "--state", "dead"]).await;
        listed.first().map(|delivery| text(&delivery["id"]).to_owned()).ok_or_else(|| "it isn't".to_owned())
    })
    .await;
    world.connectctl.json(&["delivery", "replay", &dead]).await;
    for webhook in receiver.wait_for(2).await {
        assert_eq!(trace_of(webhook.header("traceparent")), TRACE);
        assert_eq!(webhook.header("x-connect-delivery"), dead);
    }
    for line in lines_with(&world.dispatchers[0], "webhook attempt finished", 2).await {
        let span = &line["span"];
        let expected = (TRACE, request_id(&response).to_string());
        assert_eq!((text(&span["trace_id"]), text(&span["request_id"])), (expected.0, expected.1.as_str()));
    }
}

#[tokio::test]
async fn each_attempt_has_its_own_span_in_the_trace_of_its_event_or_in_a_new_one() {
    let builder = verbose().dispatchers(0).set("CONNECT_WEBHOOK_ATTEMPTS", "2");
    let mut world = builder.set("CONNECT_WEBHOOK_BACKOFF_BASE", "100ms").start().await;
    let receiver = Receiver::http();
    receiver.respond_to_all(Behavior::status(500));
    world.subscribe(&receiver.url("/hooks")).await;
    world.accept(enquiry_submitted()).await;
    world.database.execute("UPDATE outbox SET traceparent = NULL").await;
    let response = world.http().send(&request(&world, enquiry_submitted()).with("traceparent", SENT)).await;
    world.add_dispatcher().await;
    let received = receiver.wait_for(4).await;
    let message = "webhook attempts used up; dead-lettering the delivery";
    let (mut traces, mut warnings) = (Vec::new(), 0);
    for dead in lines_with(&world.dispatchers[0], message, 2).await {
        assert_eq!(dead["attempts"], 2, "{dead}");
        // Warnings are limited to one a second.
        warnings += usize::from(dead["level"] == "WARN");
        let (span, trace) = (&dead["span"], text(&dead["span"]["trace_id"]).to_owned());
        let of_delivery = received.iter().filter(|one| span["delivery_id"] == one.header("x-connect-delivery"));
        let headers: Vec<&str> = of_delivery.map(|one| one.header("traceparent")).collect();
        let [first, second] = headers[..] else { panic!("{headers:?}") };
        assert_eq!((trace_of(first), trace_of(second)), (trace.as_str(), trace.as_str()));
        assert_ne!(first, second);
        assert_eq!(trace == TRACE, span["request_id"] == json!(request_id(&response)), "{dead}");
        traces.push(trace);
    }
    assert!(warnings > 0, "no warning");
    for _ in 0..2 {
        let header = waiting(&world, "webhooks.dead").await.header("traceparent");
        traces.extend(header.map(|header| trace_of(&header).to_owned()));
    }
    assert_eq!(traces.iter().filter(|trace| *trace == TRACE).count(), 2, "the event's: {traces:?}");
}

#[tokio::test]
async fn log_lines_of_a_unit_name_the_requests_and_traces_of_all_its_batches() {
    let mut world = verbose()
        .dispatchers(0)
        .workers(0)
        .set("CONNECT_REPLY_TIMEOUT", "300ms")
        .set("CONNECT_WORKER_LANES", "1")
        .start()
        .await;
    let requests = (0..20).map(|_| request(&world, enquiry_submitted()));
    let responses = join_all(requests.map(async |request| world.http().send(&request).await)).await;
    let ids: Vec<String> = responses.iter().map(|response| request_id(response).to_string()).collect();
    let refused = lines_with(&world.ingests[0], "request failed", ids.len()).await;
    let of = |line: &Value, name: &str| text(&line["span"][name]).to_owned();
    let trace_of: BTreeMap<String, String> =
        refused.iter().map(|line| (of(line, "request_id"), of(line, "trace_id"))).collect();
    assert!(ids.iter().all(|id| trace_of.contains_key(id)), "{trace_of:?}");

    world.add_worker().await;
    let unit = eventually("a unit of several requests", MAX_WAIT, async || {
        let lines = lines(&world.workers[0], "unit of events applied").await;
        let several = |line: &Value| line["requests"].as_u64().is_some_and(|requests| requests > 1);
        lines.into_iter().find(several).ok_or_else(|| "none".to_owned())
    })
    .await;
    let (requests, traces) = (of(&unit, "request_ids"), of(&unit, "trace_ids"));
    let requests: Vec<&str> = requests.split(' ').collect();
    assert_eq!(unit["requests"], requests.len(), "{unit}");
    let expected: Vec<&str> = requests.iter().map(|id| trace_of[*id].as_str()).collect();
    assert_eq!(traces.split(' ').collect::<Vec<_>>(), expected);
}
