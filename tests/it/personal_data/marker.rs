//! A text that a person leaves in every place is gone from all of them after the erasure.

use super::columns::COVERED;
use super::{BEFORE, at, company, erase, export, tables_with};
use crate::operator::doctor::{until_fixed, until_found};
use crate::records::{patch, post_request};
use serde_json::{Value, json};
use tests::receiver::Behavior;
use tests::{Event, MAX_WAIT, QueuedMessage, Receiver, World, event, eventually, text};

/// Part of everything that the person, a partner or a receiver writes about them.
const MARKER: &str = "zq7marker";
/// The email of the person, until the last write replaces it.
const EMAIL: &str = "zq7marker@people.test";

fn person(event_type: &str, number: u32) -> Event {
    let event = at(BEFORE, event(event_type)).id(&format!("{MARKER}-event-{number}"));
    event.email(EMAIL).name("Zq7Marker Person").phone("+49 30 777").external_id(&format!("{MARKER}-x"))
}

async fn world() -> World {
    let builder = World::with().dispatchers(1).set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    let world = builder.set("CONNECT_WEBHOOK_ATTEMPTS", "1").start().await;
    world.until_ready().await;
    company(&world, "people.test").await;
    world
}

/// Everything that events do.
async fn events(world: &World) -> Value {
    let itinerary = json!({"title": MARKER, "days": [{"title": MARKER, "items": [{"title": MARKER}]}]});
    let enquiry = json!({"title": MARKER, "destination": MARKER, "message": MARKER, "externalLeadId": MARKER,
        "itinerarySnapshot": itinerary, "attribution": {"source": MARKER}, "budget": {"notes": MARKER}});
    // As a colleague on the company's account, before there is a client.
    let updated = at(BEFORE, event("contact.updated")).id(&format!("{MARKER}-event-6")).email(EMAIL);
    world.accept(updated.payload(json!({"note": EMAIL}))).await;
    let opened = world.accept(person("enquiry.submitted", 1).payload(enquiry)).await;
    let discovery = json!({"discovery": {"tripNotes": MARKER}, "essence": MARKER,
        "profilePatch": {"constraints": [MARKER]}});
    let credit = json!({"corporateName": MARKER, "membershipId": MARKER, "availableRupees": 5,
        "asOf": "2020-01-01T00:00:00Z"});
    let booking = json!({"bookingRef": format!("{MARKER}-booking"), "amount": 10, "currency": "INR"});
    for event in [
        person("traveller.discovery_upserted", 2).payload(discovery),
        person("employee.credit_updated", 3).payload(credit),
        person("booking.completed", 4).payload(booking),
        person("contact.identified", 5).payload(json!({"note": MARKER})),
    ] {
        world.accept(event).await;
    }
    opened
}

/// What the records API and the CRM do.
async fn writes(world: &World, opened: &Value) {
    let client = text(&opened["clientId"]);
    let body = json!({"contact": {"email": EMAIL}, "title": MARKER, "message": MARKER, "externalId": MARKER});
    let posted = world.http().send(&post_request(&world.key, "/leads", &format!("{MARKER}-key"), &body)).await;
    assert_eq!(posted.status, 201, "{posted:?}");
    let posted = posted.json();
    let lead = text(&posted["data"]["id"]);
    let travelers = json!({"travelers": [{"name": MARKER, "email": EMAIL}], "company": MARKER});
    patch(world, &format!("/clients/{client}"), travelers).await.assert_status(200);
    let change = json!({"destination": MARKER, "message": MARKER, "changeSummary": MARKER});
    patch(world, &format!("/leads/{lead}/trip"), change).await.assert_status(200);
    let new = json!({"email": "zq7marker.new@people.test", "phone": "+49 30 888", "externalId": format!("{MARKER}-y")});
    patch(world, &format!("/clients/{client}"), new).await.assert_status(200);
    for action in [
        json!({"action": "proposal-send", "tenant": "acme", "lead": lead, "title": MARKER,
            "url": format!("https://proposals.example/{MARKER}"), "channel": "email"}),
        json!({"action": "stage", "tenant": "acme", "lead": lead, "stage": "lost", "reason": MARKER}),
    ] {
        let message = QueuedMessage::new(action.to_string().as_bytes()).with_id(&uuid::Uuid::now_v7().to_string());
        let reply = world.queues.call("crm", &message).await;
        assert!(String::from_utf8_lossy(&reply.body).contains("\"ok\":true"), "{action}: {reply:?}");
    }
}

/// Messages that nobody can read.
async fn dead_letters(world: &World) {
    for queue in ["events", "records", "crm"] {
        let body = format!("unreadable: {MARKER}, mail {EMAIL}");
        world.queues.publish(queue, body.as_bytes()).await;
        let other = "unreadable: mail of bo@example.com";
        world.queues.publish(queue, other.as_bytes()).await;
        world.until_depth(&format!("{queue}.dead"), 2).await;
    }
}

/// The bodies of all messages in all queues, which are taken out.
async fn messages(world: &World) -> Vec<String> {
    let mut bodies = Vec::new();
    // Nobody can look into a queue with a single active consumer.
    assert_eq!(world.queues.depth("crm").await, 0);
    for queue in ["events", "events.dead", "records", "records.dead", "crm.dead", "webhooks.dead"] {
        let taken = world.queues.take_all(queue).await;
        bodies.extend(taken.iter().map(|message| String::from_utf8_lossy(&message.body).into_owned()));
    }
    bodies
}

#[tokio::test]
async fn nothing_of_an_erased_person_is_left_in_any_table_or_queue() {
    let mut world = world().await;
    let (echoing, paused) = (Receiver::http(), Receiver::http());
    echoing.respond_to_all(Behavior::status(500).with_body(format!("{{\"refused\": \"{MARKER}\"}}")));
    world.subscribe(&echoing.url("/hook")).await;
    let waiting = world.subscribe(&paused.url("/hook")).await["id"].clone();
    world.connectctl.json(&["subscription", "pause", text(&waiting)]).await;
    let opened = events(&world).await;
    writes(&world, &opened).await;
    dead_letters(&world).await;
    let dead = "SELECT count(*) FROM deliveries WHERE state = 'dead'";
    let open = "SELECT (SELECT count(*) FROM outbox_pending)
        + (SELECT count(*) FROM deliveries JOIN subscriptions USING (tenant_id, subscription_id)
           WHERE state = 'pending' AND paused_at IS NULL)";
    eventually("every delivery was dead-lettered or waits for its subscription", MAX_WAIT, async || {
        let (dead, open) = (world.database.count(dead).await, world.database.count(open).await);
        let letters = i64::from(world.queues.depth("webhooks.dead").await);
        if dead > 0 && open == 0 && letters == dead { Ok(()) } else { Err(format!("{dead} {letters} {open}")) }
    })
    .await;

    let marked = tables_with(&world, MARKER).await;
    // The rows of notifications hold ids only.
    let expected = COVERED.into_iter().filter(|table| *table != "notifications").chain(["replay_entries"]);
    for table in expected {
        assert!(marked.iter().any(|marked| marked == table), "{table} has nothing of the person: {marked:?}");
    }
    let exported = export(&world.connectctl, &opened["clientId"]).await;
    for (table, rows) in exported["records"].as_object().expect("an object") {
        assert!(!rows.as_array().expect("rows").is_empty(), "{table}: {exported}");
    }
    let receipt = erase(&world.connectctl, &opened["clientId"]).await;
    for (table, rows) in exported["records"].as_object().expect("an object") {
        let number = rows.as_array().expect("rows").len();
        assert_eq!(receipt["removed"][table], number, "{table}: {receipt}");
    }
    assert_eq!(receipt["removed"]["deadLetters"], exported["deadLetters"].as_array().expect("letters").len());

    assert_eq!(tables_with(&world, MARKER).await, Vec::<String>::new());
    for phone in ["49 30 777", "4930777", "49 30 888", "4930888"] {
        assert_eq!(tables_with(&world, phone).await, Vec::<String>::new(), "{phone}");
    }
    // Deliveries that waited are not made any more.
    world.connectctl.json(&["subscription", "resume", text(&waiting)]).await;
    assert_eq!(world.database.count("SELECT count(*) FROM deliveries WHERE state <> 'dropped'").await, 0);
    for program in world.dispatchers.iter_mut().chain(&mut world.workers) {
        assert!(program.terminate().await.success());
    }
    assert_eq!(paused.count(), 0);
    let bodies = messages(&world).await;
    assert_eq!(bodies.iter().filter(|body| body.contains("bo@example.com")).count(), 3, "{bodies:?}");
    assert!(!bodies.iter().any(|body| body.to_lowercase().contains(MARKER)), "{bodies:?}");
}

#[tokio::test]
async fn an_erasure_drops_webhooks_at_once_while_the_broker_is_unreachable() {
    let builder = World::with().dispatchers(1).through_proxies().set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    let world = builder.set("CONNECT_WEBHOOK_ATTEMPTS", "1").start().await;
    world.until_ready().await;
    let (failing, waiting) = (Receiver::http(), Receiver::http());
    failing.respond_to_all(Behavior::status(500));
    let mut ids = Vec::new();
    for receiver in [&failing, &waiting] {
        let id = text(&world.subscribe(&receiver.url("/hook")).await["id"]).to_owned();
        world.connectctl.json(&["subscription", "pause", &id]).await;
        ids.push(id);
    }
    let opened = world.accept(person("enquiry.submitted", 1)).await;
    let until = async |expected: i64, condition: &str| {
        let count = format!("SELECT count(*) FROM deliveries WHERE {condition}");
        world.database.until_count(&count, expected).await;
    };
    until(2, "state = 'pending'").await;
    world.proxies().broker.reset_connections();
    world.connectctl.json(&["subscription", "resume", &ids[0]]).await;
    until(1, "state = 'dead' AND needs_notice").await;

    let away = world.connectctl.without("AMQP_URL").and("AMQP_URL", "amqp://guest:guest@127.0.0.1:1/%2f");
    let client = text(&opened["clientId"]);
    let refusal = away.refusal(&["client", "erase", "--tenant", "acme", "--client", client, "--yes"]).await;
    assert!(refusal.contains("erased from the database, but not from the dead-letter queues"), "{refusal}");
    until_found(&world.connectctl, &[], "warning", "erasures", client).await;
    until(2, "state = 'dropped' AND NOT needs_notice").await;
    assert_eq!(tables_with(&world, MARKER).await, Vec::<String>::new());
    world.connectctl.json(&["subscription", "resume", &ids[1]]).await;
    world.connectctl.json(&["subscription", "test", &ids[1]]).await;
    assert_eq!(waiting.count(), 1, "nothing but the test event");

    world.proxies().broker.restore();
    let other = at(BEFORE, event("enquiry.submitted")).email("bo@example.com");
    world.accept_with_retries(other).await;
    until(1, "state = 'dead' AND NOT needs_notice").await;
    // A notice that was being published at the erasure may still arrive.
    let notices = world.queues.take_all("webhooks.dead").await;
    let bodies: Vec<_> = notices.iter().map(|notice| String::from_utf8_lossy(&notice.body)).collect();
    assert!(!bodies.iter().any(|body| body.contains(MARKER)), "{bodies:?}");
    let receipt = erase(&world.connectctl, &opened["clientId"]).await;
    let expected = (&json!(2), &json!(0));
    assert_eq!((&receipt["removed"]["deliveries"], &receipt["removed"]["deadLetters"]), expected);
    until_fixed(&world.connectctl, &[], "erasures", "").await;
}
