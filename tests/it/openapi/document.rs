//! The document is valid, its examples fit its schemas, and so do the webhooks that are sent.

use super::{OPENAPI, TempDirectory, get, project, python_tool, run};
use serde_json::{Value, json};
use tests::{EVENTS, QueuedMessage, Receiver, UNREACHED_RECEIVER, World, event, text};
use uuid::Uuid;

/// Sends an advisor action, which must succeed, and returns the reply.
async fn act(world: &World, action: &str, fields: Value) -> Value {
    let mut body = fields;
    body["action"] = json!(action);
    body["tenant"] = json!("acme");
    let message = QueuedMessage::new(body.to_string().as_bytes()).with_id(&Uuid::now_v7().to_string());
    let reply: Value = serde_json::from_slice(&world.queues.call("crm", &message).await.body).expect("JSON");
    assert_eq!(reply["ok"], true, "{body}: {reply}");
    reply
}

/// Causes one event of each outbound type with all optional fields.
async fn cause_full_events(world: &World) {
    let person = event("enquiry.submitted").email("ana@example.com").phone("+49 30 1").external_id("crm-1");
    let result = world.accept(person.payload(json!({"externalLeadId": "order-1"}))).await;
    let lead = &result["leadId"];
    act(world, "assign", json!({"lead": lead, "owner": "ben@acme.test"})).await;
    act(world, "stage", json!({"lead": lead, "stage": "negotiation", "reason": "they called"})).await;
    let proposal = json!({"lead": lead, "title": "Goa", "url": "https://example.com/p", "channel": "email"});
    act(world, "proposal-send", proposal).await;
    act(world, "proposal-view", json!({"lead": lead})).await;
    let booking =
        json!({"lead": lead, "bookingRef": "B-1", "amount": 10, "currency": "INR", "creditUsed": 2.5});
    act(world, "booking-confirm", booking).await;
    act(world, "booking-cancel", json!({"bookingRef": "B-1", "reason": "ill"})).await;
}

/// Causes outbound events with as few fields as possible: no trip, no amount, no reason, an owner without a name.
async fn cause_minimal_events(world: &World) {
    let opened = act(world, "open-lead", json!({"email": "bo@example.com", "noTrip": true})).await;
    let lead = &opened["leadId"];
    let owner = world.lead(lead).await["owner"]["email"].clone();
    let other = if owner == "ben@acme.test" { "asha@acme.test" } else { "ben@acme.test" };
    world.database.execute(&format!("DELETE FROM members WHERE email = '{}'", text(&owner))).await;
    act(world, "assign", json!({"lead": lead, "owner": other})).await;
    act(world, "stage", json!({"lead": lead, "stage": "follow_up"})).await;
    let completed = event("booking.completed").email("bo@example.com");
    world.accept(completed.payload(json!({"leadId": lead, "bookingRef": "B-2"}))).await;
    act(world, "booking-cancel", json!({"bookingRef": "B-2"})).await;
}

/// Causes each outbound type with all and with few fields, and returns the envelopes.
async fn envelopes(world: &World) -> Vec<Value> {
    world.subscribe(UNREACHED_RECEIVER).await;
    cause_full_events(world).await;
    cause_minimal_events(world).await;
    let rows = world.database.rows("SELECT envelope FROM outbox ORDER BY created_at", &[]).await;
    rows.into_iter().map(|row| row["envelope"].clone()).collect()
}

/// The name of the schema of a type's envelope.
fn schema<'d>(document: &'d Value, kind: &str) -> &'d str {
    let content = &document["webhooks"][kind]["post"]["requestBody"]["content"]["application/json"];
    let reference = text(&content["schema"]["$ref"]);
    reference.rsplit('/').next().expect("a name")
}

/// The payloads of the example of a batch, with the schemas that the envelope's points to.
fn example_payloads(document: &Value) -> Vec<Value> {
    let request = &document["paths"][EVENTS]["post"]["requestBody"]["content"]["application/json"];
    let events = request["examples"]["request"]["value"]["events"].as_array().expect("events");
    let by_type =
        &document["components"]["schemas"]["InboundEvent"]["properties"]["payload"]["x-payload-schemas"];
    let of = |event: &Value| {
        let schema = text(&by_type[text(&event["eventType"])]).rsplit('/').next().expect("a name").to_owned();
        json!({"schema": schema, "value": event["payload"]})
    };
    events.iter().map(of).collect()
}

#[tokio::test]
async fn the_document_is_valid_and_its_examples_and_every_webhook_fit_their_schemas() {
    let world = World::start().await;
    let served = get(&world, OPENAPI).await;
    let document = served.json();
    let envelopes = envelopes(&world).await;
    let mut kinds: Vec<&str> = envelopes.iter().map(|envelope| text(&envelope["eventType"])).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let described: Vec<&String> = document["webhooks"].as_object().expect("webhooks").keys().collect();
    assert_eq!(kinds, described);

    let tells = |kind: &str, what: fn(&Value) -> bool| {
        let of_kind = envelopes.iter().filter(|envelope| envelope["eventType"] == kind);
        assert!(of_kind.map(|envelope| &envelope["payload"]).any(what), "{kind}: {envelopes:#?}");
    };
    tells("booking.confirmed", |told| told["amount"].is_null() && told["currency"].is_null());
    tells("booking.confirmed", |told| told.get("tripId").is_none() && told.get("creditUsed").is_none());
    tells("booking.cancelled", |told| told["reason"].is_null());
    tells("lead.stage_changed", |told| told["reason"].is_null());
    tells("lead.assigned", |told| told["previousOwner"].is_null() && told.get("tripId").is_none());
    tells("lead.assigned", |told| {
        told["previousOwner"]["email"].is_string() && told["previousOwner"]["name"].is_null()
    });

    let of_webhooks = envelopes.iter().map(
        |envelope| json!({"schema": schema(&document, text(&envelope["eventType"])), "value": envelope}),
    );
    let bodies: Vec<Value> = of_webhooks.chain(example_payloads(&document)).collect();
    let directory = TempDirectory::new();
    let files = [
        directory.put("openapi.json", &served.body),
        directory.put("bodies.json", json!(bodies).to_string().as_bytes()),
    ];
    let mut python = python_tool("python").await;
    let checked = run(python.arg(project("tests/schemathesis/check_document.py")).args(files), 3).await;
    assert!(checked.succeeded, "{}\n{}", checked.output, checked.errors);
}

#[tokio::test]
async fn a_delivery_has_exactly_the_documented_headers() {
    let world = World::with().dispatchers(1).set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true").start().await;
    let receiver = Receiver::http();
    let url = receiver.url("/hooks");
    world.subscribe(&url).await;
    world.accept(event("enquiry.submitted").email("ana@example.com")).await;
    let delivery = receiver.wait_for(1).await.remove(0);

    let document = get(&world, OPENAPI).await.json();
    let operation = &document["webhooks"][delivery.header("x-connect-event")]["post"];
    let scheme = operation["security"][0].as_object().expect("security").keys().next().expect("a scheme");
    let signature = &document["components"]["securitySchemes"][scheme]["name"];
    let parameters = operation["parameters"].as_array().expect("parameters");
    let described = parameters.iter().map(|parameter| &parameter["name"]).chain([signature]);
    let mut described: Vec<String> = described.map(|name| text(name).to_lowercase()).collect();
    described.sort_unstable();
    // Those of HTTP itself.
    let of_http = ["host", "content-type", "content-length", "user-agent"];
    let mut sent: Vec<String> = delivery.headers().map(|(name, _)| name.to_lowercase()).collect();
    sent.retain(|name| !of_http.contains(&name.as_str()));
    sent.sort_unstable();
    assert_eq!(sent, described);
    assert!(parameters.iter().all(|parameter| parameter["required"] == true), "{operation}");
    // The chapter lists the same.
    let chapters = text(&document["info"]["description"]);
    for name in parameters.iter().map(|parameter| text(&parameter["name"])).chain([text(signature)]) {
        assert!(chapters.contains(&format!("| `{name}` |")), "{name}");
    }
}
