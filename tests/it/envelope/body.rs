//! The body: as JSON, and the fields of the envelope and of its actor.

use super::{ana, assert_untouched, refuse, refuse_event};
use serde_json::{Value, json};
use tests::{Event, World, batch, event, text};

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
    for wrong in
        [r#""eventId":"connect-api:1""#, r#""tenant":"zeta""#, r#""eventType":"nope""#, r#""actor":{"type":"contact"}"#]
    {
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
        let started = event("booking.started").email("last@example.com").payload(json!({"leadId": lead(last)}));
        // Names in several ways of writing, and values that a reader of the first one would take.
        let body = String::from_utf8(batch(&[started])).expect("text");
        let body = body
            .replacen(r#""leadId""#, &format!(r#""leadId":"{}","lead\u0049d""#, lead(first)), 1)
            .replacen(r#""email""#, r#""email":"first@example.com","email""#, 1)
            .replacen(r#""eventType""#, r#""eventType":"enquiry.submitted","eventType""#, 1)
            .replacen(r#""tenant""#, r#""tenant":"zeta","tenant""#, 1);
        let response = world.http().send(&world.key.events(body)).await;
        let result = response.json()["results"][0].clone();
        let expected = (&json!("accepted"), &json!(lead(last)));
        assert_eq!((&result["status"], &result["leadId"]), expected, "{response:?}");
        let stored = "SELECT event_type, payload->>'leadId' AS lead FROM timeline WHERE event_id = $1";
        let stored = world.database.rows(stored, &[&text(&result["eventId"])]).await;
        assert_eq!(stored, [json!({"event_type": "booking.started", "lead": lead(last)})]);
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1, "none of the first address");
}

#[tokio::test]
async fn rejects_fields_of_another_form_or_length_and_names_their_place() {
    let world = World::shared().await;
    world.add_tenant("zeta").await;
    let [long, accented, wide] = ["x", "é", "🧳"].map(|letter| letter.repeat(101));
    let (long_texts, text) = ([long.as_str(), &accented, &wide], "é".repeat(201));
    let (digits, ones) = ("1".repeat(41), "1".repeat(17));
    let long_email = format!("{}@{}.com", "a".repeat(60), "b".repeat(60).repeat(5));
    for (field, why, values) in [
        ("specVersion", "another version", &["1", "1.1", "2.0", "v1.0", "1.0.0", "10", &ones][..]),
        ("eventType", "unknown", &["contact.deleted", "Contact.Identified", "contact", "enquiry.submitted "]),
        ("eventType", "outbound", &["lead.assigned", "proposal.sent"]),
        ("eventId", "too long", &long_texts),
        ("eventId", "reserved for the records API", &["connect-api:", "connect-api:1"]),
        ("origin", "too long", &long_texts),
        ("tenant", "too long", &long_texts),
        ("tenant", "not the key's", &[&tests::slug("zeta"), "nobody", "acme2", "acm", "a cme"]),
        ("occurredAt", "no time", &["2026-05-01", "2026-05-01T10:00Z", "1 May 2026", "yesterday", "1777629600"]),
        ("occurredAt", "no offset", &["2026-05-01T10:00:00", "2026-05-01T10:00:00+25:00"]),
        ("occurredAt", "another form", &["2026-05-01T10:00:00 Z", "2026-05-01 10:00:00Z"]),
        ("occurredAt", "another offset", &["2026-05-01T10:00:00+0200"]),
        ("occurredAt", "no such day", &["2026-02-30T10:00:00Z", "2026-13-01T10:00:00Z"]),
        ("occurredAt", "no such time", &["2026-05-01T25:00:00Z", "2026-05-01T10:61:00Z"]),
        ("occurredAt", "no such year", &["-2026-05-01T10:00:00Z", "+12026-05-01T10:00:00Z"]),
        ("payload", "no object", &["text"]),
        ("actor", "no object", &["ana@example.com"]),
        ("actor.type", "another type", &["person", "Contact", ""]),
        ("actor.email", "half an address", &["ana", "ana@", "@example.com", "a@b@c.com"]),
        ("actor.email", "a blank", &["a b@example.com", "ana@exa mple.com", "Ana <ana@example.com>"]),
        ("actor.email", "too long", &[&long_email]),
        ("actor.phone", "too long", &[&digits]),
        ("actor.externalId", "too long", &[&text]),
        ("actor.name", "too long", &[&text]),
    ] {
        for value in values {
            refuse_value(&world, field, why, json!(value)).await;
        }
    }
    for (field, values) in [
        ("payload", json!([[], 1, true, [{}]])),
        ("actor", json!([[], 1, {"type": "contact"}, {"type": "contact", "name": "Ana"}])),
        ("actor", json!([{"type": "contact", "email": null, "phone": null, "externalId": null}])),
        ("actor", json!([{"type": "contact", "email": "", "phone": "  ", "externalId": " \t"}])),
        ("actor", json!([{"type": "contact", "phone": "unknown"}, {"type": "contact", "phone": "+()-"}])),
        ("actor.type", json!([null, 1])),
        ("actor.email", json!([1, {}])),
        ("actor.phone", json!([491_234])),
        ("actor.externalId", json!([7])),
        ("actor.name", json!([["Ana"]])),
    ] {
        for value in values.as_array().expect("values") {
            refuse_value(&world, field, "another type, or nobody", value.clone()).await;
        }
    }
    let untyped = ana().with("actor", json!({"email": "ana@example.com"}));
    refuse_event(&world, &untyped, "events[0].actor.type").await;
    assert_untouched(&world).await;
}

/// Sends an event with this value of a field of its own or of its actor's, which must be refused.
async fn refuse_value(world: &World, field: &str, why: &str, value: Value) {
    let event = match field.strip_prefix("actor.") {
        Some(of_actor) => ana().with_actor(of_actor, value),
        None => ana().with(field, value),
    };
    let message = refuse(world, batch(&[event])).await;
    assert!(message.contains(&format!("events[0].{field}: ")), "{field}, {why}: {message}");
}

#[tokio::test]
async fn one_invalid_envelope_rejects_the_batch_and_every_fault_is_named() {
    let world = World::shared().await;
    let mut events: Vec<_> = (0..9).map(|i| ana().email(&format!("{i}@example.com"))).collect();
    events[3] = ana().with_actor("email", json!("not an address")).without("origin");
    events[7] = ana().with("eventType", json!("nope"));
    let message = refuse(&world, batch(&events)).await;
    for place in ["events[3].actor.email: ", "events[3].origin: ", "events[7].eventType: "] {
        assert!(message.contains(place), "{place} isn't named in: {message}");
    }
    assert!(message.contains("enquiry.submitted") && !message.contains("events[2]"), "{message}");
    assert_untouched(&world).await;
}

#[tokio::test]
async fn limits_the_length_of_the_error_message() {
    let world = World::shared().await;
    let broken = ana().without("origin").without("tenant").with("eventType", json!("x".repeat(1_000)));
    let message = refuse(&world, batch(&vec![broken; 100])).await;
    assert!(message.contains("events[0].") && message.len() < 2_000, "{} characters", message.len());
    assert!(!message.contains("xxxx"), "what was sent is repeated: {message}");
    assert_untouched(&world).await;
}

#[tokio::test]
async fn accepts_the_longest_values_counted_in_characters() {
    let world = World::shared().await;
    // A local part has at most 64 characters, a domain name 253, each of its labels 63.
    let domain = [63, 63, 63, 61].map(|length| "b".repeat(length)).join(".");
    let email = format!("{}@{domain}", "a".repeat(64));
    let name = "é".repeat(200);
    let external_id = "🧳".repeat(200);
    let phone = format!("{}{}", "(".repeat(20), "1".repeat(20));
    let longest = event("contact.identified")
        .id(&"é".repeat(100))
        .with("origin", json!("ö".repeat(100)))
        .email(&email)
        .phone(&phone)
        .external_id(&external_id)
        .name(&name);
    let result = world.accept(longest).await;
    assert_eq!(text(&result["eventId"]).chars().count(), 100);
    let client = world.client(&result["clientId"]).await;
    assert_eq!((text(&client["email"]), text(&client["name"])), (email.as_str(), name.as_str()));
    assert_eq!((text(&client["external_id"]), text(&client["phone"])), (external_id.as_str(), phone.as_str()));
}

#[tokio::test]
async fn treats_null_and_empty_optional_fields_as_absent() {
    let world = World::shared().await;
    let result = world
        .accept(
            ana()
                .with_actor("phone", Value::Null)
                .with_actor("externalId", json!("  "))
                .with_actor("name", json!(""))
                .with("payload", Value::Null),
        )
        .await;
    let client = world.client(&result["clientId"]).await;
    assert_eq!(client["name"], "ana@example.com");
    assert_eq!((&client["phone"], &client["external_id"]), (&Value::Null, &Value::Null));

    let by_id = event("contact.identified").external_id("p-1").with_actor("email", json!(" ")).phone("n/a");
    let client = world.client(&world.accept(by_id).await["clientId"]).await;
    assert_eq!((&client["email"], &client["phone"]), (&Value::Null, &Value::Null));
    assert_eq!((&client["external_id"], &client["name"]), (&json!("p-1"), &json!("p-1")));
}

#[tokio::test]
async fn ignores_unknown_fields_anywhere() {
    let world = World::shared().await;
    let odd = ana()
        .with("correlationId", json!({"deep": [1, null]}))
        .with_actor("age", json!(41))
        .with("prototype", json!(null));
    let mut body: serde_json::Value = serde_json::from_slice(&batch(&[odd])).expect("a batch");
    body["sentBy"] = json!("partner");
    let response = world.http().send(&world.key.events(body.to_string())).await;
    assert_eq!(response.json()["accepted"], 1, "{response:?}");
    assert_eq!(response.json()["results"][0].get("warnings"), None, "{response:?}");
}

#[tokio::test]
async fn accepts_one_to_a_hundred_events() {
    let world = World::shared().await;
    let events: Vec<_> = (0..100).map(|i| ana().email(&format!("{i}@example.com"))).collect();
    let response = world.send(&events).await.json();
    let expected = (&json!(100), &json!(0), &json!(0));
    assert_eq!((&response["accepted"], &response["duplicate"], &response["failed"]), expected);
    assert_eq!(world.results(&[ana()]).await.len(), 1);
    assert_eq!(world.database.count("SELECT count(*) FROM timeline").await, 101);
}

#[tokio::test]
async fn accepts_instants_with_any_offset_and_fraction() {
    let world = World::shared().await;
    let mut client = json!(null);
    for instant in [
        "2026-05-01T10:00:00Z", "2026-05-01t10:00:00z", "2026-05-01T12:00:00+02:00", "2026-05-01T10:00:00.000Z",
        "2026-05-01T05:30:00.000000000-04:30",
    ] {
        client = world.accept(ana().with("occurredAt", json!(instant))).await["clientId"].clone();
    }
    let entries = world.timeline(&client).await;
    assert_eq!(entries.len(), 5);
    for entry in entries {
        assert_eq!(entry["occurredAt"], "2026-05-01T10:00:00.000Z");
    }
}

#[tokio::test]
async fn stores_text_of_any_script_and_escaping_unchanged() {
    let world = World::shared().await;
    let name = "Žofia \"Zo\" O’Brien \\ 山田 🧳 \u{7}\u{1f}<b>'; DROP TABLE clients;--";
    let payload = json!({"note": name, "nested": {"é": [1.5, -0.0, 1e10, 12345678901234567890_u64]}});
    let result = world.accept(ana().name(name).payload(payload.clone())).await;
    assert_eq!(world.client(&result["clientId"]).await["name"], name);
    assert_eq!(world.timeline(&result["clientId"]).await[0]["payload"], payload);
}

#[tokio::test]
async fn accepts_any_payload_object_for_every_event_type() {
    let world = World::shared().await;
    let strange = json!({"travelDates": 5, "party": [], "budget": {"amount": {}}, "attribution": "x", "externalLeadId": [],
        "itinerarySnapshot": 1, "discovery": "x", "profilePatch": [], "essence": {}, "bookingRef": {}, "leadId": 1,
        "tripId": [], "hosTripDiscoveryId": false, "asOf": "never", "availablePaise": "many", "requestedRupees": -1});
    let events: Vec<_> = common::event::InboundType::ALL
        .iter()
        .map(|kind| event(kind.as_str()).email("ana@example.com").payload(strange.clone()))
        .collect();
    for result in world.results(&events).await {
        assert_ne!(result["error"], "internal_error", "{result}");
    }
}
