//! A panic is a line of the log, and names what it happened in.

use super::{SENT, TRACE, enquiry, lines, request};
use tests::{PATIENCE, World, text};

#[tokio::test]
async fn a_panic_is_a_line_that_names_the_request_it_happened_in() {
    let mut world = World::start().await;
    world.accept(enquiry()).await;
    world.end_workers().await;
    world.set("CONNECT_REPLY_TIMEOUT", "300ms");
    world.restart_ingest().await;
    // A worker that finds another type than it knows has the wrong schema before it, and ends.
    world.database.execute("ALTER TABLE clients ALTER COLUMN name TYPE bytea USING name::bytea").await;
    world.add_worker().await;
    let answer = world.http().send(&request(&world, enquiry()).with("traceparent", SENT)).await;
    assert_eq!(answer.status, 503, "{answer:?}");
    let said = lines(&world.workers[0], "panicked").await;
    let panicked = said.iter().find(|line| line["message"] == "panicked").expect("the line");
    let expected = (TRACE, super::request_id(&answer).to_string());
    let span = &panicked["span"];
    assert_eq!((text(&span["trace_id"]), text(&span["request_id"])), (expected.0, expected.1.as_str()));
    assert!(text(&panicked["place"]).contains(".rs:"), "{panicked}");
    assert!(!world.workers[0].until_ended(PATIENCE).await.success());
    // `lines` has read all of them as JSON: nothing is said beside the log.
    lines(&world.workers[0], "a task that the program can't do without panicked; the program ends").await;
}
