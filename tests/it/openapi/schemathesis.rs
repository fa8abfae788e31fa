//! Schemathesis: many requests made from the description, right and wrong ones, and every answer held against it.

use super::{OPENAPI, Scratch, endpoints, get, project, python_tool, run};
use serde_json::{Value, json};
use tests::{World, text};

/// How often an endpoint answered with a status of this class.
fn count(answers: &Value, endpoint: &str, class: char) -> u64 {
    let statuses = answers[endpoint].as_object().into_iter().flatten();
    statuses.filter(|(status, _)| status.starts_with(class)).filter_map(|(_, count)| count.as_u64()).sum()
}

#[tokio::test]
async fn no_request_gets_an_answer_that_is_not_described() {
    // No 503 because the machine is busy.
    let patient = ["CONNECT_REPLY_TIMEOUT", "CONNECT_STORE_TIMEOUT", "CONNECT_PUBLISH_TIMEOUT"];
    let world = patient.into_iter().fold(World::with(), |world, name| world.set(name, "60s")).start().await;
    let key = world.add_tenant("demo").await;
    // As many as it likes.
    world.connectctl.json(&["tenant", "set", "--tenant", "demo", "--reads-per-second", "1000000"]).await;
    let body = json!({"contact": {"email": "known@example.com"}}).to_string();
    let lead = key.records("POST", "/api/v1/crm/connect/leads", body).with("idempotency-key", "known");
    let lead = world.http().send(&lead).await.json()["data"].clone();

    let scratch = Scratch::new();
    let served = get(&world, OPENAPI).await;
    // From a file: at its own address Schemathesis would leave out the route that it came from.
    let description = scratch.put("openapi.json", &served.body);
    let answers = scratch.path("answers.json");
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
        .env("CONNECT_ANSWERS", &answers);
    let tested = run(&mut schemathesis, 8).await;
    assert!(tested.succeeded, "{}\n{}", tested.output, tested.errors);

    // It got to the bottom of each endpoint, and was refused where it should be.
    let answers: Value =
        serde_json::from_slice(&std::fs::read(&answers).expect("answers")).expect("answers in JSON");
    for (path, method, operation) in endpoints(&served.json()) {
        let endpoint = format!("{method} {path}");
        assert!(count(&answers, &endpoint, '2') > 0, "{endpoint} never succeeded: {answers}");
        if operation.get("requestBody").is_some() {
            assert!(count(&answers, &endpoint, '4') > 10, "{endpoint} was hardly ever refused: {answers}");
        }
        assert_eq!(count(&answers, &endpoint, '5'), 0, "{endpoint}: {answers}");
    }
}
