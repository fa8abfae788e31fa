//! The samples of calls, run as they are.

use super::{document, endpoints, run};
use serde_json::{Value, json};
use tests::{ApiKey, World, text};
use tokio::process::Command;

/// Runs a sample in the shell, with the variables that the description names.
async fn call(world: &World, key: &ApiKey, ids: [&Value; 2], sample: &str) -> Value {
    let [client, lead] = ids.map(text);
    let url = format!("http://{}", world.http().address());
    let mut shell = Command::new("bash");
    shell.args(["-euc", sample]).envs([
        ("CONNECT_URL", url.as_str()),
        ("CONNECT_KEY", &key.prefix),
        ("CONNECT_SECRET", &key.secret),
        ("CONNECT_TENANT", &key.tenant),
        ("CLIENT_ID", client),
        ("LEAD_ID", lead),
    ]);
    let called = run(&mut shell, 1).await;
    assert!(called.succeeded, "{sample}\n{called:?}");
    serde_json::from_str(&called.output).unwrap_or(Value::Null)
}

#[tokio::test]
async fn every_code_sample_succeeds() {
    let world = World::start().await;
    // Not the tenant of the examples: a sample must work for any tenant.
    let key = world.add_tenant("nordwind").await;
    let body = json!({"contact": {"email": "ana@example.com"}}).to_string();
    let request = key.records("POST", "/api/v1/crm/connect/leads", body).with("idempotency-key", "k");
    let lead = world.http().send(&request).await.json()["data"].clone();
    let document = document(&world).await;
    let mut done = Vec::new();
    for (path, method, operation) in endpoints(&document) {
        let sample = text(&operation["x-codeSamples"][0]["source"]);
        let response = call(&world, &key, [&lead["clientId"], &lead["id"]], sample).await;
        match path.rsplit('/').next() {
            Some("events") => assert_eq!(response["accepted"], 1, "{response}"),
            Some("openapi.json") => assert_eq!(response["openapi"], "3.1.0"),
            Some("docs") => assert_eq!(response, Value::Null),
            _ => assert!(
                response["data"].is_object() || response["data"][0].is_object(),
                "{method} {path}: {response}"
            ),
        }
        done.push(operation["operationId"].clone());
    }
    assert_eq!(done.len(), 13);
}

#[tokio::test]
async fn the_example_event_is_accepted_without_a_warning() {
    let world = World::start().await;
    let key = world.add_tenant("demo").await;
    let document = document(&world).await;
    let events = &document["paths"]["/api/v1/crm/connect/events"]["post"];
    let example = &events["requestBody"]["content"]["application/json"]["examples"]["request"]["value"];
    let response = world.http().send(&key.events(example.to_string())).await.json();
    assert_eq!(response["accepted"], 1, "{response}");
    assert_eq!(response["results"][0].get("warnings"), None, "{response}");
}
