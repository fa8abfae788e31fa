//! `POST /leads` runs the same path as `enquiry.submitted` (specification: POST /leads; D16, D22), and the examples of
//! the records API in docs/integrators.md do what they say.

use super::{data, get, new_lead, trip_route};
use crate::examples::readme::block;
use serde_json::{Value, json};
use tests::{CommandOutput, World, event, text};

/// The fields of the lead; two of them have different names in the event.
fn lead_fields() -> Value {
    json!({
        "title": "Honeymoon", "destination": "Goa", "message": "We'd love the sea.",
        "travelDates": {"startDate": "2027-05-01", "endDate": "2027-05-08"},
        "party": {"adults": 2, "children": 1, "childAges": [4], "rooms": 1},
        "budget": {"amount": 1000, "currency": "INR"},
        "attribution": {"source": "google", "campaign": "summer"},
    })
}

fn itinerary() -> Value {
    json!({"title": "Goa", "days": [{"title": "1", "items": [{"title": "Beach"}]}]})
}

/// Lead, trip, pipeline row, inbox, timeline types, notifications, outbox and tables, without what differs between any two.
async fn resulting_state(world: &World, lead: &Value) -> Value {
    let route = format!("/leads/{}", text(lead));
    let shown = data(&get(world, &route).await, 200);
    let trip = data(&get(world, &trip_route(&shown)).await, 200);
    let client = world.client(&shown["clientId"]).await;
    let timeline = world.timeline(&shown["clientId"]).await;
    let types: Vec<_> = timeline.iter().map(|entry| entry["eventType"].clone()).collect();
    let inbox = world.inbox(lead).await;
    let inbox: Vec<_> = inbox.iter().map(|one| json!([one["kind"], one["text"], one["changes"]])).collect();
    let notifications = world.notifications().await;
    let notifications: Vec<_> = notifications.iter().map(|one| json!([one["kind"], one["to"], one["text"]])).collect();
    let stored = world.database.rows("SELECT title, attribution, owner_email FROM leads", &[]).await;
    let snapshots = world.database.rows("SELECT snapshot FROM itineraries", &[]).await;
    let mut shown = json!({"lead": shown, "trip": trip});
    for record in ["lead", "trip"] {
        for own in ["id", "leadId", "clientId", "tripId", "createdAt", "updatedAt"] {
            if let Some(fields) = shown[record].as_object_mut() {
                fields.remove(own);
            }
        }
    }
    json!({
        "shown": shown, "client": [client["name"], client["email"], client["phone"]], "timeline": types,
        "inbox": inbox, "told": notifications, "stored": stored, "itineraries": snapshots,
    })
}

#[tokio::test]
async fn a_lead_is_the_same_by_event_and_by_record() {
    let expected = opened_by_event().await;
    assert_eq!(expected["shown"]["lead"]["externalId"], "x-1", "{expected}");
    assert_eq!(expected["timeline"], json!(["enquiry.submitted"]));
    assert_eq!(expected["inbox"], json!([["message", "We'd love the sea.", null]]));
    let world = World::shared().await;
    let mut body = lead_fields();
    body["externalId"] = json!("x-1");
    body["itinerary"] = itinerary();
    body["contact"] = json!({"email": "ana@example.com", "name": "Ana", "phone": "333"});
    let lead = new_lead(&world, body).await;
    assert_eq!(resulting_state(&world, &lead["id"]).await, expected);
}

/// The state of a lead that an event has opened, in a tenant of its own.
async fn opened_by_event() -> Value {
    let world = World::shared().await;
    let mut payload = lead_fields();
    payload["externalLeadId"] = json!("x-1");
    payload["itinerarySnapshot"] = itinerary();
    let sent = event("enquiry.submitted").email("ana@example.com").name("Ana").phone("333").payload(payload);
    let opened = world.accept(sent).await;
    resulting_state(&world, &opened["leadId"]).await
}

#[tokio::test]
async fn numbers_and_owners_continue_across_events_and_records() {
    let world = World::shared().await;
    let mut leads = Vec::new();
    for i in 0..4 {
        leads.push(if i % 2 == 0 {
            new_lead(&world, json!({})).await
        } else {
            let opened = world.accept(event("enquiry.submitted").email("bo@example.com")).await;
            world.lead(&opened["leadId"]).await
        });
    }
    let numbers: Vec<_> = leads.iter().map(|lead| text(&lead["enquiryNumber"])).collect();
    let year = common::clock::now().format("%Y");
    let expected: Vec<_> = (1..=4).map(|i| format!("ENQ-{year}-{i:06}")).collect();
    assert_eq!(numbers, expected);
    let owners: Vec<_> = leads.iter().map(|lead| text(&lead["owner"]["email"])).collect();
    assert_eq!(owners, ["asha@acme.test", "ben@acme.test", "asha@acme.test", "ben@acme.test"]);
}

#[tokio::test]
async fn events_find_the_client_and_lead_that_the_records_api_created() {
    let world = World::shared().await;
    let lead = new_lead(&world, json!({"externalId": "x-1"})).await;
    let sent = event("booking.started").email("ANA@example.com").payload(json!({"externalLeadId": "x-1"}));
    let result = world.accept(sent).await;
    let expected = (&lead["clientId"], &lead["id"], &lead["tripId"]);
    assert_eq!((&result["clientId"], &result["leadId"], &result["tripId"]), expected);
    let shown = data(&get(&world, &super::lead_route(&lead)).await, 200);
    assert_eq!(shown["stage"], "proposal_approved");
}

#[tokio::test]
async fn the_documented_examples_create_read_and_update() {
    let world = World::start().await;
    let demo = world.add_tenant("demo").await;
    let mut settings = world.settings().to_vec();
    let address = world.http().address().to_string();
    for (name, value) in [("CONNECT_INGEST_ADDR", &address), ("KEY", &demo.prefix), ("SECRET", &demo.secret)] {
        settings.retain(|(setting, _)| setting != name);
        settings.push((name.to_owned(), value.clone()));
    }
    let ran = CommandOutput::bash(&block("integrators.md", "Use the records API", "sh"), &settings).await;
    assert_eq!((ran.code, ran.errors.as_str()), (Some(0), ""), "{ran:?}");
    let statuses: Vec<_> = ran.output.lines().filter_map(|line| line.strip_prefix("HTTP/1.1 ")).collect();
    let [created, ok] = ["201 Created", "200 OK"];
    assert_eq!(statuses, [created, created, ok, ok, ok, ok, ok], "{}", ran.output);
    for shown in [r#""destination":"Lisbon""#, r#""stage":"follow_up""#, r#""adults":2"#, "My sister comes along."] {
        assert!(ran.output.contains(shown), "{shown}: {}", ran.output);
    }
    let usage = world.connectctl.json(&["usage", "--tenant", "demo"]).await;
    assert_eq!(usage["writes"], 4);
}
