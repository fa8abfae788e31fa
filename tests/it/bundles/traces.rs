//! Each request of a bundle keeps its id and its trace, in logs and in webhooks.

use super::{enquiry_submitted, results, send_during_a_publish, stallable, until_published};
use crate::records::break_inserts;
use serde_json::Value;
use std::collections::BTreeMap;
use tests::{HttpRequest, HttpResponse, MAX_WAIT, Program, Receiver, World, batch, eventually, text};

/// Programs that log every request and unit.
async fn verbose() -> World {
    let world = stallable().dispatchers(1).set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    world.set("RUST_LOG", "info,common=debug,ingest=debug,worker=debug,dispatcher=debug").start().await
}

fn trace(number: usize) -> String {
    format!("0af7651916cd43dd8448eb211c803{number:03x}")
}

/// Requests with one `enquiry.submitted` each, each with its own trace.
fn traced(world: &World, count: usize) -> Vec<HttpRequest> {
    let request = |i: usize| world.key.events(batch(&[enquiry_submitted(&format!("{i}@example.com"))]));
    (0..count).map(|i| request(i).with("traceparent", format!("00-{}-b7ad6b7169203331-01", trace(i)))).collect()
}

/// The log lines with `message`, once there are `count` of them.
pub(super) async fn lines(program: &Program, message: &str, count: usize) -> Vec<Value> {
    eventually(&format!("{count} lines say {message:?}"), MAX_WAIT, async || {
        let lines = program.logs();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        // The description of the API is read once for all tests, perhaps from here.
        let is_other = |line: &Value| line["route"].as_str().is_some_and(|route| !route.ends_with("/events"));
        let saying: Vec<Value> = lines.filter(|line| line["message"] == message && !is_other(line)).collect();
        if saying.len() == count { Ok(saying) } else { Err(program.logs()) }
    })
    .await
}

/// Trace id by request id, by the order of the requests.
fn expected_traces(responses: &[HttpResponse]) -> BTreeMap<String, String> {
    let id = |response: &HttpResponse| response.header("x-request-id").to_owned();
    responses.iter().enumerate().map(|(i, response)| (id(response), trace(i))).collect()
}

/// Trace id by request id in the spans of log lines, which name one request or several.
fn traces_by_request(lines: &[Value]) -> BTreeMap<String, String> {
    let words = |line: &Value, one: &str, several: &str| -> Vec<String> {
        let names = line["span"][one].as_str().or(line["span"][several].as_str());
        names.unwrap_or_else(|| panic!("names nothing: {line}")).split(' ').map(str::to_owned).collect()
    };
    let pairs = lines.iter().flat_map(|line| {
        words(line, "request_id", "request_ids").into_iter().zip(words(line, "trace_id", "trace_ids"))
    });
    pairs.collect()
}

#[tokio::test]
async fn log_lines_and_webhooks_name_the_request_that_caused_them() {
    let world = verbose().await;
    let receiver = Receiver::http();
    let url = receiver.url("/hooks");
    world.subscribe(&url).await;
    let requests = traced(&world, 5);
    let (first, rest) = requests.split_at(1);
    let responses = send_during_a_publish(&world, first, rest).await;
    let expected = expected_traces(&responses);
    assert_eq!(traces_by_request(&lines(&world.ingests[0], "request completed", 5).await), expected);
    let published = lines(&world.ingests[0], "publishing requests in one message", 4).await;
    assert!(published.iter().all(|line| line["message_id"] == published[0]["message_id"] && line["requests"] == 4));
    let applied = eventually("all are applied", MAX_WAIT, async || {
        let logs = world.workers[0].logs();
        let lines: Vec<Value> = logs.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let applied: Vec<Value> =
            lines.into_iter().filter(|line| line["message"] == "unit of events applied").collect();
        if traces_by_request(&applied).len() == 5 { Ok(applied) } else { Err(logs) }
    })
    .await;
    assert_eq!(traces_by_request(&applied), expected);

    // Each outbox row belongs to its request, not to the bundle.
    let stored = "SELECT DISTINCT request_id, split_part(traceparent, '-', 2) AS trace_id FROM outbox";
    let stored = world.database.rows(stored, &[]).await;
    let stored: BTreeMap<String, String> =
        stored.iter().map(|row| (text(&row["request_id"]).to_owned(), text(&row["trace_id"]).to_owned())).collect();
    assert_eq!(stored, expected);
    let sent = receiver.wait_for(5).await;
    let mut traces: Vec<String> = sent.iter().map(|webhook| webhook.header("traceparent")[3..35].to_owned()).collect();
    traces.sort();
    traces.dedup();
    assert_eq!(traces, (0..5).map(trace).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_failed_event_of_a_bundle_names_its_own_request() {
    let world = verbose().await;
    break_inserts(&world, "event_ledger").await;
    let requests = traced(&world, 4);
    let (first, rest) = requests.split_at(1);
    let responses = send_during_a_publish(&world, first, rest).await;
    until_published(&world.ingests[0], 4).await;
    for response in &responses {
        assert_eq!(results(response)[0]["error"], "internal_error");
    }
    let found =
        traces_by_request(&lines(&world.workers[0], "event failed; reporting it as failed in the reply", 4).await);
    assert_eq!(found, expected_traces(&responses));
}
