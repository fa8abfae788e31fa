//! A panic is logged with the request that it happened in.

use super::{SENT, TRACE, enquiry_submitted, lines, lines_with, request};
use tests::{MAX_WAIT, World, text};

#[tokio::test]
async fn a_panic_is_logged_with_its_request() {
    let mut world = World::start().await;
    world.accept(enquiry_submitted()).await;
    world.end_workers().await;
    world.set("CONNECT_REPLY_TIMEOUT", "300ms");
    world.restart_ingest().await;
    // A worker that finds an unexpected column type panics: the schema is wrong.
    world.database.execute("ALTER TABLE clients ALTER COLUMN name TYPE bytea USING name::bytea").await;
    world.add_worker().await;
    let response = world.http().send(&request(&world, enquiry_submitted()).with("traceparent", SENT)).await;
    assert_eq!(response.status, 503, "{response:?}");
    let message = "a thread panicked; abandoning its current task";
    let panicked = &lines_with(&world.workers[0], message, 1).await[0];
    let expected = (TRACE, super::request_id(&response).to_string());
    let span = &panicked["span"];
    assert_eq!((text(&span["trace_id"]), text(&span["request_id"])), (expected.0, expected.1.as_str()));
    assert!(text(&panicked["place"]).contains(".rs:"), "{panicked}");
    assert!(!world.workers[0].until_ended(MAX_WAIT).await.success());
    // `lines` has parsed all output as JSON: nothing is written beside the log.
    lines(&world.workers[0], "a critical task panicked; the process aborts").await;
}
