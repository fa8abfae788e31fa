//! The document is one, what it shows fits what it says, and so does what is sent to receivers.

use super::{OPENAPI, Scratch, get, project, python_tool, run};
use serde_json::{Value, json};
use tests::{PATIENCE, World, event, eventually, text};

/// Causes one of each outbound type, and gives the envelopes as they would be signed.
async fn envelopes(world: &World) -> Vec<Value> {
    let subscribe = ["subscription", "create", "--tenant", "acme", "--url", "https://1.1.1.1/hooks"];
    world.connectctl.json(&subscribe).await;
    let person = event("enquiry.submitted").email("ana@example.com").phone("+49 30 1").external_id("crm-1");
    let result = world.accept(person.payload(json!({"externalLeadId": "order-1"}))).await;
    let lead = &result["leadId"];
    for (count, action) in [
        (2, json!({"action": "assign", "lead": lead, "owner": "ben@acme.test"})),
        (3, json!({"action": "stage", "lead": lead, "stage": "negotiation"})),
        (
            4,
            json!({"action": "proposal-send", "lead": lead, "title": "Goa", "url": "https://example.com/p", "\
                channel": "\
                email"}),
        ),
        (5, json!({"action": "proposal-view", "lead": lead})),
        (
            7,
            json!({"action": "booking-confirm", "lead": lead, "bookingRef": "B-1", "amount": 10, "currency": "\
                INR", "\
                creditUsed": 2.5}),
        ),
        (8, json!({"action": "booking-cancel", "bookingRef": "B-1", "reason": "ill"})),
    ] {
        let mut action = action;
        action["tenant"] = json!("acme");
        world.queues.publish("crm", action.to_string().as_bytes()).await;
        eventually("the action was done", PATIENCE, async || {
            match world.database.count("SELECT count(*) FROM outbox").await {
                emitted if emitted == count => Ok(()),
                emitted => Err(format!("{emitted} events after {action}")),
            }
        })
        .await;
    }
    let rows = world.database.rows("SELECT envelope FROM outbox ORDER BY created_at", &[]).await;
    rows.into_iter().map(|row| row["envelope"].clone()).collect()
}

/// The name of the schema of a type's envelope.
fn schema<'d>(document: &'d Value, kind: &str) -> &'d str {
    let content = &document["webhooks"][kind]["post"]["requestBody"]["content"]["application/json"];
    let reference = text(&content["schema"]["$ref"]);
    reference.rsplit('/').next().expect("a name")
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

    let bodies: Vec<Value> = envelopes
        .iter()
        .map(|envelope| json!({"schema": schema(&document, text(&envelope["eventType"])), "value": envelope}))
        .collect();
    let scratch = Scratch::new();
    let files = [
        scratch.put("openapi.json", &served.body),
        scratch.put("bodies.json", json!(bodies).to_string().as_bytes()),
    ];
    let mut python = python_tool("python").await;
    let checked = run(python.arg(project("tests/schemathesis/check_document.py")).args(files), 3).await;
    assert!(checked.succeeded, "{}\n{}", checked.output, checked.errors);
}
