//! What each event type does (specification: Inbound event types; D10 to D16).

mod booking;
mod contact;
mod leads;

use serde_json::{Value, json};
use tests::{Event, World, event};

fn ana(event_type: &str) -> Event {
    event(event_type).email("ana@example.com")
}

/// Sends `enquiry.submitted` for Ana and returns the result.
async fn submit_enquiry(world: &World, payload: Value) -> Value {
    world.accept(ana("enquiry.submitted").payload(payload)).await
}

pub(crate) fn warnings(result: &Value) -> Vec<&str> {
    result["warnings"].as_array().map(|list| list.iter().map(tests::text).collect()).unwrap_or_default()
}

/// Puts a lead at a stage, as the CRM would.
async fn set_stage(world: &World, lead: &Value, stage: &str) {
    let id = tests::text(lead);
    world.database.execute(&format!("UPDATE leads SET stage = '{stage}' WHERE lead_id = '{id}'")).await;
}

/// The rows of the outbox of these event types (of all if none is given), oldest first.
async fn outbox(world: &World, event_types: &[&str]) -> Vec<Value> {
    let query = "SELECT event_type, key_prefix, origin, envelope FROM outbox ORDER BY event_id";
    let rows = world.database.rows(query, &[]).await;
    let wanted = |row: &Value| event_types.is_empty() || event_types.iter().any(|wanted| row["event_type"] == *wanted);
    rows.into_iter().filter(wanted).collect()
}

/// The fields of a result that name records.
fn ids(result: &Value) -> [Value; 3] {
    ["clientId", "leadId", "tripId"].map(|id| result.get(id).cloned().unwrap_or(json!(null)))
}
