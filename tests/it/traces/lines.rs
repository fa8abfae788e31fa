//! Trace id and request id in the logs of all programs, and in the webhook.

use super::failures::act;
use super::{
    SENT, TRACE, enquiry_submitted, lines_with, request, request_id, trace_and_request, trace_of, verbose,
};
use crate::records::patch_request;
use serde_json::json;
use tests::{HttpRequest, MAX_WAIT, QueuedMessage, Receiver, World, eventually, text};

#[tokio::test]
async fn a_callers_trace_is_in_the_logs_of_all_programs_and_in_the_webhook() {
    let world = verbose().start().await;
    let receiver = Receiver::http();
    world.subscribe(&receiver.url("/hooks")).await;
    let send = async |request: HttpRequest| {
        let response = world.http().send(&request.with("traceparent", SENT)).await;
        assert_eq!(response.status, 200, "{response:?}");
        response
    };
    let opened = send(request(&world, enquiry_submitted())).await;
    let expected = (TRACE.to_owned(), Some(request_id(&opened).to_string()));
    assert_eq!(trace_and_request(&world.ingests[0], "request completed").await, expected);
    assert_eq!(trace_and_request(&world.workers[0], "unit of events applied").await, expected);
    assert_eq!(trace_and_request(&world.dispatchers[0], "webhook attempt finished").await, expected);

    let lead = &opened.json()["results"][0]["leadId"];
    let change = json!({"stage": "negotiation"});
    let written = send(patch_request(&world.key, &format!("/leads/{}", text(lead)), &change)).await;
    let expected = (TRACE.to_owned(), Some(request_id(&written).to_string()));
    assert_eq!(trace_and_request(&world.workers[0], "records write finished; replying").await, expected);

    // An advisor action takes its trace from the message header.
    let id = act(&world, lead).await;
    let expected = (TRACE.to_owned(), Some(id));
    assert_eq!(trace_and_request(&world.workers[0], "advisor action finished").await, expected);
    for webhook in receiver.wait_for(3).await {
        let header = webhook.header("traceparent");
        assert_eq!(trace_of(header), TRACE);
        assert!(!header.contains("b7ad6b7169203331"), "the caller's own span: {header}");
        // The sampled flag is passed on.
        assert!(header.ends_with("-01"), "{header}");
    }
}

#[tokio::test]
async fn an_invalid_traceparent_is_replaced_by_a_new_trace() {
    let upper = SENT.to_uppercase();
    let headers: [&[&str]; 7] = [
        &[],
        &[""],
        &["nonsense"],
        &[&SENT[..54]],
        &[&upper],
        &["00-00000000000000000000000000000000-b7ad6b7169203331-01"],
        // Two headers are ambiguous.
        &[SENT, SENT],
    ];
    let world = World::with().set("RUST_LOG", "info,ingest=debug").join().await;
    for headers in headers {
        let mut request = HttpRequest::new("GET", "/nothing", "");
        for header in headers {
            request = request.with("traceparent", header);
        }
        assert_eq!(world.http().send(&request).await.status, 404, "{headers:?}");
    }
    let lines = lines_with(&world.ingests[0], "request completed", headers.len()).await;
    let mut traces: Vec<&str> = lines.iter().map(|line| text(&line["span"]["trace_id"])).collect();
    assert!(traces.iter().all(|trace| trace.len() == 32 && *trace != TRACE), "{traces:?}");
    traces.sort_unstable();
    traces.dedup();
    assert_eq!(traces.len(), headers.len());
}

#[tokio::test]
async fn a_warning_names_its_request_even_at_log_level_warn_and_so_does_the_message() {
    let mut world = World::with().workers(0).start().await;
    world.set("RUST_LOG", "info,ingest=warn,ingest::service=info");
    world.set("CONNECT_REPLY_TIMEOUT", "300ms");
    world.restart_ingest().await;
    let response = world.http().send(&request(&world, enquiry_submitted()).with("traceparent", SENT)).await;
    assert_eq!(response.status, 503, "{response:?}");
    let expected = (TRACE.to_owned(), Some(request_id(&response).to_string()));
    assert_eq!(trace_and_request(&world.ingests[0], "request failed").await, expected);
    let message = waiting(&world, "events").await;
    let header = message.header("traceparent").expect("a header");
    assert_eq!(trace_of(&header), TRACE);
    assert_ne!(header, SENT, "the parent of what follows is ingest's span");
    assert_eq!(message.meta_field("traceparent"), *header);
    assert_eq!(text(&message.meta_field("requestId")), request_id(&response).to_string());
}

pub(super) async fn waiting(world: &World, queue: &str) -> QueuedMessage {
    eventually(&format!("a message in {queue}"), MAX_WAIT, async || {
        world.queues.take(queue).await.ok_or_else(|| "none".to_owned())
    })
    .await
}
