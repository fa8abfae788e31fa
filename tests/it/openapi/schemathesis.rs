//! Schemathesis generates valid and invalid requests from the description, and checks every response against it.

use super::{OPENAPI, TempDirectory, endpoints, get, project, python_tool, run};
use serde_json::{Value, json};
use tests::{World, text};

/// The number of responses of an endpoint with a status of this class.
fn count(responses: &Value, endpoint: &str, class: char) -> u64 {
    let statuses = responses[endpoint].as_object().into_iter().flatten();
    statuses.filter(|(status, _)| status.starts_with(class)).filter_map(|(_, count)| count.as_u64()).sum()
}

#[tokio::test]
async fn every_response_is_documented() {
    // No 503 because the machine is busy.
    let patient = ["CONNECT_REPLY_TIMEOUT", "CONNECT_STORE_TIMEOUT", "CONNECT_PUBLISH_TIMEOUT"];
    let world = patient.into_iter().fold(World::with(), |world, name| world.set(name, "60s")).start().await;
    let key = world.add_tenant("demo").await;
    // No rate limit.
    world.connectctl.json(&["tenant", "set", "--tenant", "demo", "--reads-per-second", "1000000"]).await;
    let body = json!({"contact": {"email": "known@example.com"}}).to_string();
    let lead = key.records("POST", "/api/v1/crm/connect/leads", body).with("idempotency-key", "known");
    let lead = world.http().send(&lead).await.json()["data"].clone();

    let scratch = TempDirectory::new();
    let served = get(&world, OPENAPI).await;
    // Events as they are accepted: with payloads that do not match the schemas of their types as well.
    let mut description = served.json();
    let events = &mut description["components"]["schemas"]["EventBatch"]["properties"]["events"];
    assert_eq!(events["items"], json!({"$ref": "#/components/schemas/Event"}));
    events["items"] = json!({"$ref": "#/components/schemas/InboundEvent"});
    // From a file: at its own address Schemathesis would leave out the route that it came from.
    let description = scratch.put("openapi.json", description.to_string().as_bytes());
    let responses = scratch.path("responses.json");
    let mut schemathesis = python_tool("schemathesis").await;
    let directory = project("tests/schemathesis");
    schemathesis
        // It leaves files where it runs.
        .current_dir(&scratch.0)
        .env("PYTHONPATH", &directory)
        .arg("--config-file")
        .arg(directory.join("schemathesis.toml"))
        .arg("run")
        .arg(&description)
        .args(["--url", &format!("http://{}/", world.http().address()), "--no-color"])
        .envs([
            ("CONNECT_KEY", key.prefix.as_str()),
            ("CONNECT_SECRET", &key.secret),
            ("CONNECT_TENANT", &key.tenant),
            ("CLIENT_ID", text(&lead["clientId"])),
            ("LEAD_ID", text(&lead["id"])),
            ("PYTHONDONTWRITEBYTECODE", "1"),
        ])
        .env("CONNECT_RESPONSES", &responses);
    let tested = run(&mut schemathesis, 8).await;
    assert!(tested.succeeded, "{}\n{}", tested.output, tested.errors);

    // It succeeded at each endpoint, and was refused where it should be.
    let responses: Value =
        serde_json::from_slice(&std::fs::read(&responses).expect("responses")).expect("responses in JSON");
    for (path, method, operation) in endpoints(&served.json()) {
        let endpoint = format!("{method} {path}");
        assert!(count(&responses, &endpoint, '2') > 0, "{endpoint} never succeeded: {responses}");
        if operation.get("requestBody").is_some() {
            assert!(
                count(&responses, &endpoint, '4') > 10,
                "{endpoint} was hardly ever refused: {responses}"
            );
        }
        assert_eq!(count(&responses, &endpoint, '5'), 0, "{endpoint}: {responses}");
    }
}
