//! Every described route is served with its methods and scopes, and every example of a request is accepted.

use super::{DOCS, OPENAPI, document, endpoints, get, python_tool, run};
use common::event::InboundType;
use common::model::Stage;
use serde_json::{Value, json};
use tests::api_description::{closed, resolved, validator};
use tests::{ALL_SCOPES, ApiKey, HttpRequest, World, event, text};
use tokio::process::Command;
use worker::rules::records::NotApplied;
use worker::rules::{InternalError, Refusal};
use worker::state::{ClientType, ProposalStatus};

/// A path with an id where one belongs.
fn filled(path: &str) -> String {
    let id = "0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e";
    path.replace("{clientId}", id).replace("{leadId}", id)
}

/// The scope of an endpoint; `None` for one that needs no credentials.
fn scope(operation: &Value) -> Option<&str> {
    operation["security"].get(0)?["ConnectKey"][0].as_str()
}

/// A request to an endpoint, signed as it says.
fn signed(key: &ApiKey, path: &str, method: &str, operation: &Value, body: String) -> HttpRequest {
    let is_v1 = operation["security"][0].get("ConnectSignatureV1").is_some();
    if is_v1 { key.events(body) } else { key.records(method, path, body) }
}

#[tokio::test]
async fn every_documented_endpoint_exists_and_accepts_only_its_documented_methods_and_no_compressed_body() {
    let world = World::shared().await;
    let document = document(&world).await;
    let endpoints = endpoints(&document);
    for (path, method, operation) in &endpoints {
        let response = world.http().send(&HttpRequest::new(method, &filled(path), "")).await;
        assert_eq!(response.status, if scope(operation).is_some() { 401 } else { 200 }, "{method} {path}");
        let compressed = HttpRequest::new(method, &filled(path), "{}").with("content-encoding", "gzip");
        world.http().send(&compressed).await.assert_error(400, "invalid_request");
        let of_path = endpoints.iter().filter(|(other, ..)| other == path);
        let mut methods: Vec<&str> = of_path.map(|(_, method, _)| method.as_str()).collect();
        methods.extend(scope(operation).is_none().then_some("HEAD"));
        for other in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            if methods.contains(&other) {
                continue;
            }
            let response = world.http().send(&HttpRequest::new(other, &filled(path), "")).await;
            response.assert_error(405, "method_not_allowed");
            assert_eq!(response.header("allow"), methods.join(", "), "{other} {path}");
        }
    }
}

#[tokio::test]
async fn every_endpoint_requires_exactly_its_documented_scope() {
    let world = World::shared().await;
    let document = document(&world).await;
    for (path, method, operation) in endpoints(&document) {
        let Some(scope) = scope(operation) else { continue };
        let others: Vec<_> = ALL_SCOPES.split(',').filter(|other| *other != scope).collect();
        assert_eq!(others.len(), 6, "{scope} is a scope");
        let (with, without) = (world.add_key(scope).await, world.add_key(&others.join(",")).await);
        let request = |key| signed(key, &filled(path), &method, operation, String::new());
        world.http().send(&request(&without)).await.assert_error(403, "forbidden");
        // The request may be refused, but not for its credentials.
        let passed = world.http().send(&request(&with)).await;
        assert!(![401, 403].contains(&passed.status), "{method} {path}: {passed:?}");
    }
}

#[tokio::test]
async fn every_example_of_a_request_is_accepted() {
    let world = World::start().await;
    let key = world.add_tenant("demo").await;
    world.connectctl.json(&["tenant", "set", "--tenant", "demo", "--discovery", "true"]).await;
    let body = json!({"contact": {"email": "ana@example.com"}}).to_string();
    let known = key.records("POST", "/api/v1/crm/connect/leads", body).with("idempotency-key", "known");
    let known = world.http().send(&known).await.json()["data"].clone();
    let document = document(&world).await;
    let mut sent = 0;
    for (path, method, operation) in endpoints(&document) {
        let path = path.replace("{clientId}", text(&known["clientId"])).replace("{leadId}", text(&known["id"]));
        let media = &operation["requestBody"]["content"]["application/json"];
        // Events in their order, which tells a story.
        for name in ["request"].into_iter().chain(InboundType::ALL.iter().map(|kind| kind.as_str())) {
            let Some(example) = media["examples"].get(name) else { continue };
            let request = signed(&key, &path, &method, operation, example["value"].to_string());
            let request = if method == "POST" { request.with("idempotency-key", path.clone()) } else { request };
            let response = world.http().send(&request).await;
            assert!([200, 201].contains(&response.status), "{path} {name}: {response:?}");
            if path.ends_with("/events") {
                assert_eq!(response.json()["accepted"], 1, "{name}: {response:?}");
                assert_eq!(response.json()["results"][0].get("warnings"), None, "{name}: {response:?}");
                let kind = &example["value"]["events"][0]["eventType"];
                assert!(name == "request" || name == text(kind), "{name}");
            }
            sent += 1;
        }
    }
    assert_eq!(sent, 5 + 13, "the records routes with a body, and an event of each type");
}

/// All bodies with examples, each with its place.
fn described_bodies(document: &Value) -> Vec<(String, &Value)> {
    let webhooks = document["webhooks"].as_object().expect("webhooks").iter();
    let webhooks = webhooks.map(|(kind, item)| (kind.as_str(), "POST".to_owned(), &item["post"]));
    let operations = endpoints(document).into_iter().chain(webhooks);
    let mut bodies = Vec::new();
    for (path, method, operation) in operations {
        let responses = operation["responses"].as_object().into_iter().flatten();
        let responses = responses.map(|(status, response)| (status.as_str(), resolved(document, response)));
        for (status, body) in responses.chain([("request", &operation["requestBody"])]) {
            bodies.push((format!("{method} {path} {status}"), &body["content"]["application/json"]));
        }
    }
    bodies
}

#[tokio::test]
async fn the_document_is_valid() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../ingest/openapi.yaml");
    let checked = run(python_tool("openapi-spec-validator").await.arg(file), 3).await;
    assert!(checked.succeeded, "{checked:?}");
}

#[test]
fn every_example_fits_its_schema() {
    let document: Value = serde_json::from_str(ingest::docs::OPENAPI).expect("JSON");
    // Room for other fields is for callers.
    let strict = closed(document.clone());
    let mut checked = 0;
    for (place, media) in described_bodies(&document) {
        for (name, example) in media["examples"].as_object().into_iter().flatten() {
            let is_ours =
                !place.ends_with("request") || place.contains("POST lead.") || place.contains("POST booking.");
            let validator = validator(if is_ours { &strict } else { &document }, &media["schema"]);
            let fits = validator.validate(&example["value"]);
            assert!(fits.is_ok(), "{place}, {name}: {fits:?}");
            checked += 1;
        }
    }
    for (name, schema) in strict["components"]["schemas"].as_object().expect("schemas") {
        for example in schema["examples"].as_array().into_iter().flatten() {
            let fits = validator(&strict, schema).validate(example).map_err(|fault| fault.to_string());
            assert_eq!(fits, Ok(()), "{name}");
            checked += 1;
        }
    }
    assert!(checked > 60, "{checked}");
}

/// The example of each type matches its type only, and the payload is checked.
#[test]
fn an_event_matches_the_schema_of_its_type_only() {
    let document: Value = serde_json::from_str(ingest::docs::OPENAPI).expect("JSON");
    let union = &document["components"]["schemas"]["Event"];
    let examples =
        &document["paths"]["/api/v1/crm/connect/events"]["post"]["requestBody"]["content"]["application/json"];
    for (kind, of_kind) in union["discriminator"]["mapping"].as_object().expect("types") {
        let event = &examples["examples"][kind]["value"]["events"][0];
        for choice in union["oneOf"].as_array().expect("choices") {
            assert_eq!(validator(&document, choice).is_valid(event), choice["$ref"] == *of_kind, "{kind}");
        }
        let mut other = event.clone();
        other["payload"] = json!([]);
        assert!(!validator(&document, union).is_valid(&other), "{kind}");
    }
}

#[tokio::test]
async fn the_sample_in_the_shell_succeeds() {
    let world = World::shared().await;
    let key = &world.key;
    let document = document(&world).await;
    let (_, sample) = text(&document["info"]["description"]).split_once("```sh").expect("a sample");
    let (sample, _) = sample.split_once("```").expect("its end");
    let event = event("contact.updated").email("ana@example.com").name("Ana").to_json();
    let event = json!({ "events": [event] });
    let mut shell = Command::new("bash");
    shell.arg("-euc").arg(format!("{sample}\nconnect POST /api/v1/crm/connect/events '{event}'")).envs([
        ("CONNECT_URL", format!("http://{}", world.http().address())),
        ("CONNECT_KEY", key.prefix.clone()),
        ("CONNECT_SECRET", key.secret.clone()),
        ("CONNECT_TENANT", key.tenant.clone()),
    ]);
    let called = run(&mut shell, 1).await;
    assert!(called.succeeded && called.output.contains("\"accepted\":1"), "{called:?}");
    assert_eq!(called.output.matches("\"email\":\"ana@example.com\"").count(), 2, "{called:?}");
}

fn values(document: &Value, schema: &str, field: &str) -> Vec<String> {
    let values = &document["components"]["schemas"][schema]["properties"][field]["enum"];
    let values = values.as_array().unwrap_or_else(|| panic!("{schema}.{field}"));
    values.iter().map(|value| text(value).to_owned()).collect()
}

#[test]
fn documented_states_and_reasons_match_the_rules() {
    let document: Value = serde_json::from_str(ingest::docs::OPENAPI).expect("JSON");
    let reasons =
        [NotApplied::AdvisorWorking, NotApplied::ProposalSent, NotApplied::NoProposal, NotApplied::UpdateFailed];
    assert_eq!(values(&document, "Trip", "itineraryNotAppliedReason"), reasons.map(NotApplied::as_str));
    let reasons = [
        Refusal::InsufficientScope,
        Refusal::ContactNotFound,
        Refusal::BookingNotFound,
        Refusal::ContactErased,
        Refusal::InvalidPayload,
        Refusal::Internal(InternalError("any")),
    ];
    assert_eq!(values(&document, "EventResult", "error"), reasons.map(|reason| reason.reason()));
    let statuses = [ProposalStatus::Draft, ProposalStatus::Sent, ProposalStatus::Viewed, ProposalStatus::Discarded];
    assert_eq!(values(&document, "Proposal", "status"), statuses.map(ProposalStatus::as_str));
    let kinds = [ClientType::Individual, ClientType::Company];
    assert_eq!(values(&document, "Client", "clientType"), kinds.map(ClientType::as_str));
}

#[tokio::test]
async fn the_documented_stages_and_the_read_rate_are_those_of_the_programs() {
    let world = World::shared().await;
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
    let tenants = world.connectctl.list(&["tenant", "list"]).await;
    let tenant = tenants.iter().find(|tenant| tenant["slug"] == "acme").expect("the tenant");
    let reads = tenant["readsPerSecond"].as_u64().expect("a number");
    assert!(text(&document["info"]["description"]).contains(&format!("| {reads} per second, unless")), "{reads}");
}

#[tokio::test]
async fn the_description_is_public_and_cacheable_by_etag() {
    let world = World::with().workers(0).through_proxies().start().await;
    // The description needs neither server.
    world.proxies().postgres.reset_connections();
    world.proxies().broker.reset_connections();
    for (target, content_type) in [(OPENAPI, "application/json"), (DOCS, "text/html; charset=utf-8")] {
        let shown = get(&world, target).await;
        assert_eq!((shown.status, shown.header("content-type")), (200, content_type));
        assert_eq!(shown.header("x-content-type-options"), "nosniff");
        assert_eq!(shown.header("cache-control"), "no-cache");
        let etag = shown.header("etag");
        let again = HttpRequest::new("GET", target, "").with("if-none-match", etag);
        let again = world.http().send(&again).await;
        assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, etag));
        let head = world.http().send(&HttpRequest::new("HEAD", target, "")).await;
        assert_eq!((head.status, head.body.len()), (200, 0), "{target}");
        for header in ["content-type", "etag", "cache-control"] {
            assert_eq!(head.header(header), shown.header(header), "{target}");
        }
        assert_eq!(head.header("content-length"), shown.body.len().to_string(), "{target}");
        let samples = world.ingests[0].metrics().await;
        let labels = [("route", target), ("method", "GET"), ("status", "200")];
        assert!(samples.sum("connect_http_requests_total", &labels) > 0.0, "{target}");
    }
    let page = get(&world, DOCS).await;
    assert_eq!(page.header("referrer-policy"), "no-referrer");
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
}
