//! Documented rules match the programs that implement them.

use super::document;
use crate::openapi::get;
use common::model::Stage;
use common::settings::{Environment, Section};
use dispatcher::send::SenderSettings;
use dispatcher::settings::WebhookSettings;
use serde_json::{Value, json};
use tests::{World, text};
use worker::rules::records::NotApplied;
use worker::rules::{InternalError, Refusal};
use worker::state::{ClientType, ProposalStatus};

/// The values of a schema's field.
fn values(document: &Value, schema: &str, field: &str) -> Vec<String> {
    let values = &document["components"]["schemas"][schema]["properties"][field]["enum"];
    values
        .as_array()
        .unwrap_or_else(|| panic!("{schema}.{field}"))
        .iter()
        .map(|value| text(value).to_owned())
        .collect()
}

#[tokio::test]
async fn the_documented_schedule_matches_the_dispatchers_defaults() {
    let world = World::with().workers(0).start().await;
    let document = document(&world).await;
    let nothing_set = Environment::from_pairs(&[]);
    let schedule = WebhookSettings::from_env(&nothing_set).expect("defaults").schedule;
    let timeout = SenderSettings::from_env(&nothing_set).expect("defaults").timeout;
    let expected = json!({
        "attempts": schedule.attempts,
        "firstWaitSeconds": schedule.base.as_secs(),
        "longestWaitSeconds": schedule.cap.as_secs(),
        "timeoutSeconds": timeout.as_secs(),
    });
    let webhooks = document["webhooks"].as_object().expect("webhooks");
    assert!(webhooks.values().all(|webhook| webhook["post"]["x-delivery"] == expected), "{expected}");
}

#[tokio::test]
async fn documented_states_and_reasons_match_the_rules() {
    let world = World::with().workers(0).start().await;
    let document = document(&world).await;
    let name = |reason| match reason {
        NotApplied::AdvisorWorking
        | NotApplied::ProposalSent
        | NotApplied::NoProposal
        | NotApplied::UpdateFailed => NotApplied::as_str(reason),
    };
    let reasons = [
        NotApplied::AdvisorWorking,
        NotApplied::ProposalSent,
        NotApplied::NoProposal,
        NotApplied::UpdateFailed,
    ];
    assert_eq!(values(&document, "Trip", "itineraryNotAppliedReason"), reasons.map(name));
    let name = |reason: Refusal| match reason {
        Refusal::InsufficientScope
        | Refusal::ContactNotFound
        | Refusal::BookingNotFound
        | Refusal::ContactErased
        | Refusal::InvalidPayload
        | Refusal::Internal(_) => reason.reason(),
    };
    let reasons = [
        Refusal::InsufficientScope,
        Refusal::ContactNotFound,
        Refusal::BookingNotFound,
        Refusal::ContactErased,
        Refusal::InvalidPayload,
        Refusal::Internal(InternalError("any")),
    ];
    assert_eq!(values(&document, "EventResult", "error"), reasons.map(name));
    let name = |status| match status {
        ProposalStatus::Draft | ProposalStatus::Sent | ProposalStatus::Viewed | ProposalStatus::Discarded => {
            ProposalStatus::as_str(status)
        }
    };
    let statuses =
        [ProposalStatus::Draft, ProposalStatus::Sent, ProposalStatus::Viewed, ProposalStatus::Discarded];
    assert_eq!(values(&document, "Proposal", "status"), statuses.map(name));
    let name = |kind| match kind {
        ClientType::Individual | ClientType::Company => ClientType::as_str(kind),
    };
    assert_eq!(
        values(&document, "Client", "clientType"),
        [ClientType::Individual, ClientType::Company].map(name)
    );
}

#[tokio::test]
async fn the_documented_stages_are_those_that_can_be_set() {
    let world = World::start().await;
    let document = document(&world).await;
    let listed = values(&document, "LeadChange", "stage");
    let body = json!({"contact": {"email": "ana@example.com"}}).to_string();
    let request = world.key.records("POST", "/api/v1/crm/connect/leads", body).with("idempotency-key", "k");
    let lead = world.http().send(&request).await.json()["data"]["id"].clone();
    let target = format!("/api/v1/crm/connect/leads/{}", text(&lead));
    for stage in Stage::ALL.map(Stage::as_str) {
        let change = json!({"stage": stage, "reason": "because of it"}).to_string();
        let response = world.http().send(&world.key.records("PATCH", &target, change)).await;
        let is_listed = listed.iter().any(|listed| listed == stage);
        assert_eq!(response.status, if is_listed { 200 } else { 422 }, "{stage}: {response:?}");
    }
}

#[tokio::test]
async fn the_documented_read_rate_is_the_tenants_default() {
    let world = World::with().workers(0).start().await;
    world.add_tenant("demo").await;
    let tenants = world.connectctl.list(&["tenant", "list"]).await;
    let tenant = tenants.iter().find(|tenant| tenant["slug"] == "demo").expect("the tenant");
    let reads = tenant["readsPerSecond"].as_u64().expect("a number");
    let page = get(&world, super::OPENAPI).await.json();
    assert!(text(&page["info"]["description"]).contains(&format!("| {reads} per second, unless")), "{reads}");
}

#[tokio::test]
async fn if_match_may_be_as_long_as_documented() {
    let world = World::start().await;
    let document = document(&world).await;
    let body = json!({"contact": {"email": "ana@example.com"}}).to_string();
    let request = world.key.records("POST", "/api/v1/crm/connect/leads", body).with("idempotency-key", "k");
    let lead = world.http().send(&request).await.json()["data"]["id"].clone();
    let change = &document["paths"]["/api/v1/crm/connect/leads/{leadId}"]["patch"];
    let parameters = change["parameters"].as_array().expect("parameters");
    let condition = parameters.iter().find(|parameter| parameter["name"] == "If-Match").expect("a condition");
    let most = condition["schema"]["maxLength"].as_u64().expect("a length");
    let target = format!("/api/v1/crm/connect/leads/{}", text(&lead));
    for (length, status) in [(most, 412), (most + 1, 400)] {
        let etag = format!("\"{}\"", "x".repeat(usize::try_from(length).expect("a length") - 2));
        let request = world.key.records("PATCH", &target, json!({"followUp": true}).to_string());
        let response = world.http().send(&request.with("if-match", etag)).await;
        assert_eq!(response.status, status, "{length}: {response:?}");
    }
}
