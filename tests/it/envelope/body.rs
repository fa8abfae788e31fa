//! The body as a whole, as JSON.

use super::{ana, assert_untouched, refuse};
use serde_json::json;
use tests::event::batch;
use tests::{Event, World, event, text};

/// A batch of one valid event with `json` as the value of an ignored field.
fn with_raw(json: &str) -> String {
    let text = String::from_utf8(batch(&[ana()])).expect("text");
    text.replacen("{\"events\":[{", &format!("{{\"events\":[{{\"x\":{json},"), 1)
}

#[tokio::test]
async fn rejects_bodies_that_are_no_batch_or_cannot_be_stored() {
    let world = World::shared().await;
    let valid = String::from_utf8(batch(&[ana()])).expect("text");
    let broken = [
        valid[..valid.len() - 1].to_owned(),
        format!("{valid}x"),
        format!("{valid}{valid}"),
        format!("\u{feff}{valid}"),
        valid.replace('"', "'"),
        valid.replace("]}", ",]}"),
    ];
    let too_many: Vec<Event> = (0..101).map(|_| ana()).collect();
    let message = refuse(&world, batch(&too_many)).await;
    assert!(message.contains("events: "), "{message}");
    let nothing = ["", " ", "null", "[]", "1", "\"events\"", "{}", "{\"Events\":[{}]}"];
    let no_array = ["null", "{}", "[]", "\"x\"", "[null]", "[[]]", "[1]"];
    for body in broken.into_iter().chain(nothing.map(str::to_owned)) {
        refuse(&world, body).await;
    }
    for events in no_array {
        refuse(&world, format!("{{\"events\":{events}}}")).await;
    }
    let no_json = ["NaN", "Infinity", "01", "+1", "1.", "0x1", "tru", r#""\x""#, "\"\n\"", "/* a */ 1"];
    let unpaired = [r#""\ud800""#, r#""\udc00\ud800""#, r#""\ud800x""#];
    let nul = [r#""\u0000""#, r#"{"a\u0000b":1}"#, r#"[["x\u0000"]]"#];
    let too_large = ["1e999", "-1e999", "[1e400]"];
    for value in no_json.into_iter().chain(unpaired).chain(nul).chain(too_large) {
        refuse(&world, with_raw(value)).await;
    }
    let valid = batch(&[ana().name("NAME")]);
    for bytes in [b"\xff".as_slice(), b"\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\xc0\x80", b"\0"] {
        let at = valid.windows(4).position(|window| window == b"NAME").expect("the name");
        let body = [&valid[..at], bytes, &valid[at + 4..]].concat();
        refuse(&world, body).await;
    }
    assert_untouched(&world).await;
}

#[tokio::test]
async fn accepts_64_levels_of_nesting_and_no_more() {
    let world = World::shared().await;
    let nested = |levels: usize| with_raw(&["[".repeat(levels), "]".repeat(levels)].concat());
    // The body, the array of events and the envelope are three.
    refuse(&world, nested(62)).await;
    refuse(&world, nested(200)).await;
    refuse(&world, nested(100_000)).await;
    refuse(&world, "[".repeat(1_000_000)).await;
    refuse(&world, "{\"a\":".repeat(200_000)).await;
    assert_untouched(&world).await;
    assert_eq!(world.http().send(&world.key.events(nested(61))).await.status, 200);
}

#[tokio::test]
async fn ingest_and_worker_read_a_duplicated_json_key_alike() {
    let world = World::shared().await;
    // If ingest checked the first value and the worker read the last, these would pass.
    let valid = String::from_utf8(batch(&[ana()])).expect("text");
    let second = |extra: &str| valid.replacen("{\"events\":[{", &format!("{{\"events\":[{{{extra},"), 1);
    for wrong in [
        r#""eventId":"connect-api:1""#,
        r#""tenant":"zeta""#,
        r#""eventType":"nope""#,
        r#""actor":{"type":"contact"}"#,
    ] {
        let last = valid.replacen("}]}", &format!(",{wrong}}}]}}"), 1);
        world.http().send(&world.key.events(last)).await.assert_error(400, "invalid_request");
        let first = world.http().send(&world.key.events(second(wrong))).await;
        assert_eq!((first.status, &first.json()["failed"]), (200, &json!(0)), "{wrong}: {first:?}");
    }
    let strange = "SELECT count(*) FROM event_ledger WHERE event_id LIKE 'connect-api:%'";
    assert_eq!(world.database.count(strange).await, 0);
}

#[tokio::test]
async fn of_a_repeated_name_the_last_one_counts_for_every_reader() {
    let world = World::shared().await;
    let mut leads = Vec::new();
    for title in ["One", "Two"] {
        let enquiry = event("enquiry.submitted").email("last@example.com").payload(json!({"title": title}));
        leads.push(world.accept(enquiry).await);
    }
    let lead = |place: usize| text(&leads[place]["leadId"]).to_owned();
    for (first, last) in [(0, 1), (1, 0)] {
        let started =
            event("booking.started").email("last@example.com").payload(json!({"leadId": lead(last)}));
        // Names in several ways of writing, and values that a reader of the first one would take.
        let body = String::from_utf8(batch(&[started])).expect("text");
        let body = body
            .replacen(r#""leadId""#, &format!(r#""leadId":"{}","lead\u0049d""#, lead(first)), 1)
            .replacen(r#""email""#, r#""email":"first@example.com","email""#, 1)
            .replacen(r#""eventType""#, r#""eventType":"enquiry.submitted","eventType""#, 1)
            .replacen(r#""tenant""#, r#""tenant":"zeta","tenant""#, 1);
        let response = world.http().send(&world.key.events(body)).await;
        let result = response.json()["results"][0].clone();
        assert_eq!(
            (&result["status"], &result["leadId"]),
            (&json!("accepted"), &json!(lead(last))),
            "{response:?}"
        );
        let stored = "SELECT event_type, payload->>'leadId' AS lead FROM timeline WHERE event_id = $1";
        let stored = world.database.rows(stored, &[&text(&result["eventId"])]).await;
        assert_eq!(stored, [json!({"event_type": "booking.started", "lead": lead(last)})]);
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1, "none of the first address");
}
