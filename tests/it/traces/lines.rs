//! Trace and request in the logs of all programs, and in the webhook.

use super::{SENT, TRACE, enquiry, lines, named, outspoken, request, request_id, subscribe, trace_of};
use crate::records::patch_of;
use serde_json::json;
use tests::{Behaviour, Outgoing, QueuedMessage, Receiver, World, text};
use uuid::Uuid;

#[tokio::test]
async fn a_callers_trace_is_in_every_programs_lines_and_in_the_webhook() {
    let world = outspoken().start().await;
    let receiver = Receiver::http();
    subscribe(&world, &receiver.url("/hooks")).await;
    let answer = world.http().send(&request(&world, enquiry()).with("traceparent", SENT)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let expected = (TRACE.to_owned(), Some(request_id(&answer).to_string()));
    assert_eq!(named(&world.ingests[0], "answered").await, expected);
    assert_eq!(named(&world.workers[0], "applied").await, expected);
    assert_eq!(named(&world.dispatchers[0], "attempted").await, expected);
    let webhook = receiver.wait_for(1).await.remove(0);
    let header = webhook.header("traceparent");
    assert_eq!(trace_of(header), TRACE);
    assert!(!header.contains("b7ad6b7169203331"), "the caller's own span: {header}");
    // That it is sampled is handed on.
    assert!(header.ends_with("-01"), "{header}");
}

#[tokio::test]
async fn each_attempt_is_a_span_of_its_own_and_its_lines_name_the_delivery() {
    let world = outspoken()
        .set("CONNECT_WEBHOOK_ATTEMPTS", "2")
        .set("CONNECT_WEBHOOK_BACKOFF_BASE", "100ms")
        .start()
        .await;
    let receiver = Receiver::http();
    receiver.answer_all(Behaviour::status(500));
    subscribe(&world, &receiver.url("/hooks")).await;
    let answer = world.http().send(&request(&world, enquiry()).with("traceparent", SENT)).await;
    let received = receiver.wait_for(2).await;
    let headers = [received[0].header("traceparent"), received[1].header("traceparent")];
    assert_eq!(headers.map(trace_of), [TRACE, TRACE]);
    assert_ne!(headers[0], headers[1]);

    let lines = lines(&world.dispatchers[0], "attempts used up: dead letter").await;
    let dead = lines.iter().find(|line| line["level"] == "WARN" && line["attempts"] == 2).expect("the line");
    let span = &dead["span"];
    assert_eq!((text(&span["trace_id"]), &span["request_id"]), (TRACE, &json!(request_id(&answer))));
    assert_eq!(span["delivery_id"], received[0].header("x-connect-delivery"));
}

#[tokio::test]
async fn a_records_write_carries_its_trace_too() {
    let world = outspoken().start().await;
    let receiver = Receiver::http();
    let opened = world.accept(enquiry()).await;
    subscribe(&world, &receiver.url("/hooks")).await;
    let change = json!({"stage": "lost", "reason": "too dear"});
    let route = format!("/leads/{}", text(&opened["leadId"]));
    let answer = world.http().send(&patch_of(&world.key, &route, &change).with("traceparent", SENT)).await;
    let expected = (TRACE.to_owned(), Some(request_id(&answer).to_string()));
    assert_eq!(named(&world.workers[0], "write answered").await, expected, "{answer:?}");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(trace_of(receiver.wait_for(1).await[0].header("traceparent")), TRACE);
}

#[tokio::test]
async fn an_advisor_action_brings_its_trace_in_the_header_of_its_message() {
    let world = outspoken().start().await;
    let receiver = Receiver::http();
    let opened = world.accept(enquiry()).await;
    subscribe(&world, &receiver.url("/hooks")).await;
    let action = json!({"action": "stage", "tenant": "acme", "lead": opened["leadId"], "stage": "lost", "reason": "too dear"});
    let id = Uuid::now_v7();
    let message = QueuedMessage::new(action.to_string().as_bytes()).with_header("traceparent", SENT);
    world.queues.put("crm", &message.with_id(&id.to_string())).await;
    let expected = (TRACE.to_owned(), Some(id.to_string()));
    assert_eq!(named(&world.workers[0], "action ended").await, expected);
    assert_eq!(trace_of(receiver.wait_for(1).await[0].header("traceparent")), TRACE);
    assert_eq!(named(&world.dispatchers[0], "attempted").await, expected);
}

#[tokio::test]
async fn what_is_no_traceparent_is_replaced_by_a_new_trace() {
    let upper = SENT.to_uppercase();
    let headers: [&[&str]; 7] = [
        &[],
        &[""],
        &["nonsense"],
        &[&SENT[..54]],
        &[&upper],
        &["00-00000000000000000000000000000000-b7ad6b7169203331-01"],
        // Of two there is no telling.
        &[SENT, SENT],
    ];
    let world = World::with().workers(0).set("RUST_LOG", "info,ingest=debug").start().await;
    for headers in headers {
        let mut request = Outgoing::new("GET", "/nothing", "");
        for header in headers {
            request = request.with("traceparent", header);
        }
        assert_eq!(world.http().send(&request).await.status, 404, "{headers:?}");
    }
    let lines = tests::eventually("all are logged", tests::PATIENCE, async || {
        let lines = lines(&world.ingests[0], "answered").await;
        let answered: Vec<_> = lines.into_iter().filter(|line| line["message"] == "answered").collect();
        if answered.len() == headers.len() { Ok(answered) } else { Err(answered.len().to_string()) }
    })
    .await;
    let mut traces: Vec<&str> = lines.iter().map(|line| text(&line["span"]["trace_id"])).collect();
    assert!(traces.iter().all(|trace| trace.len() == 32 && *trace != TRACE), "{traces:?}");
    traces.sort_unstable();
    traces.dedup();
    assert_eq!(traces.len(), headers.len());
}

#[tokio::test]
async fn a_warning_names_its_request_also_when_nothing_else_is_logged() {
    let mut world = World::with().workers(0).start().await;
    world.set("RUST_LOG", "info,ingest=warn,ingest::service=info");
    world.set("CONNECT_REPLY_TIMEOUT", "300ms");
    world.restart_ingest().await;
    let answer = world.http().send(&request(&world, enquiry()).with("traceparent", SENT)).await;
    assert_eq!(answer.status, 503, "{answer:?}");
    let expected = (TRACE.to_owned(), Some(request_id(&answer).to_string()));
    assert_eq!(named(&world.ingests[0], "request failed").await, expected);
}
