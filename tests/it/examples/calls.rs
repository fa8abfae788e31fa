//! Sending a batch, creating a lead.

use super::LANGUAGES;
use chrono::DateTime;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tests::{ApiKey, CommandOutput, MAX_WAIT, Samples, World, eventually, text};
use uuid::Uuid;

/// The variables of the examples, with the credentials of `key`.
pub(super) fn settings(world: &World, key: &ApiKey) -> [(String, String); 4] {
    let url = format!("http://{}", world.http().address());
    [
        ("CONNECT_URL", &url),
        ("CONNECT_TENANT", &key.tenant),
        ("CONNECT_KEY", &key.prefix),
        ("CONNECT_SECRET", &key.secret),
    ]
    .map(|(name, value)| (name.to_owned(), value.clone()))
}

/// Runs an example with the credentials of `key`.
async fn run(world: &World, key: &ApiKey, name: &str, language: &str, argument: &str) -> CommandOutput {
    CommandOutput::example(&format!("{name}.{language}"), &[argument], &settings(world, key), b"").await
}

/// Runs an example that must succeed, and returns what it printed.
async fn printed(world: &World, name: &str, language: &str, argument: &str) -> Value {
    let ran = run(world, &world.key, name, language, argument).await;
    assert_eq!(ran.code, Some(0), "{name}.{language}: {ran:?}");
    assert_eq!(ran.errors, "");
    ran.json()
}

/// Waits until the clock shows another second.
async fn another_second() {
    let now = tests::now();
    eventually("another second", MAX_WAIT, async || {
        if tests::now() == now { Err("the same".to_owned()) } else { Ok(()) }
    })
    .await;
}

#[tokio::test]
async fn sends_a_batch_that_is_a_duplicate_when_sent_again() {
    let world = World::shared().await;
    for language in LANGUAGES {
        let enquiry = format!("web-{language}");
        let first = printed(&world, "send-batch", language, &enquiry).await;
        assert_eq!((&first["accepted"], &first["failed"]), (&json!(2), &json!(0)), "{language}: {first}");
        // The same bytes signed within the same second are the same signature (D3).
        another_second().await;
        let again = printed(&world, "send-batch", language, &enquiry).await;
        assert_eq!(again["duplicate"], 2, "{language}: {again}");
        assert_eq!(first["results"][1]["leadId"], again["results"][1]["leadId"]);
        let lead = world.lead(&first["results"][1]["leadId"]).await;
        assert_eq!((&lead["externalId"], &lead["destination"]), (&json!(enquiry), &json!("Kerala")));
        assert_eq!(lead["party"]["adults"], 2);
        let entries = world.timeline(&first["results"][1]["clientId"]).await;
        for entry in entries {
            let at = DateTime::parse_from_rfc3339(text(&entry["occurredAt"])).expect("a time");
            assert!((tests::now() - at.timestamp()).abs() < 600, "{language}: not now: {entry}");
        }
    }
    assert_eq!(world.pipeline(&[]).await.len(), LANGUAGES.len());
}

#[tokio::test]
async fn creates_a_lead_once_for_an_idempotency_key() {
    let world = World::shared().await;
    for language in LANGUAGES {
        let order = format!("order-{language}");
        let first = printed(&world, "create-lead", language, &order).await;
        assert_eq!(first["data"]["externalId"], json!(order), "{language}: {first}");
        assert_eq!(first, printed(&world, "create-lead", language, &order).await, "{language}");
    }
    assert_eq!(world.pipeline(&[]).await.len(), LANGUAGES.len());
}

#[tokio::test]
async fn exits_with_1_and_prints_the_request_id_of_a_refusal() {
    let world = World::shared().await;
    let wrong = ApiKey { secret: "wrong".to_owned(), ..world.key.clone() };
    for (name, language) in ["send-batch", "create-lead"].iter().flat_map(|name| LANGUAGES.map(|l| (name, l)))
    {
        let ran = run(&world, &wrong, name, language, "refused-1").await;
        assert_eq!((ran.code, ran.output.as_str()), (Some(1), ""), "{name}.{language}: {ran:?}");
        let id = ran.errors.strip_prefix("refused with 401, X-Request-Id ").and_then(|rest| rest.get(..36));
        assert!(id.is_some_and(|id| Uuid::try_parse(id).is_ok()), "{ran:?}");
    }
    assert_eq!(world.pipeline(&[]).await.len(), 0);
}

/// The number of 503 responses so far.
fn unavailable(samples: &Samples) -> f64 {
    samples.sum("connect_http_requests_total", &[("status", "503")])
}

#[tokio::test]
async fn retries_a_503_and_has_one_effect() {
    let world = World::with().through_proxies().start().await;
    for language in LANGUAGES {
        let before = unavailable(&world.ingests[0].metrics().await);
        world.proxies().postgres.reset_connections();
        let runs = ["send-batch", "create-lead"].map(|name| printed(&world, name, language, language));
        let recovery = async {
            eventually("both get a 503", MAX_WAIT, async || {
                let more = unavailable(&world.ingests[0].metrics().await) - before;
                if more >= 2.0 { Ok(()) } else { Err(format!("{more} are")) }
            })
            .await;
            world.proxies().postgres.restore();
        };
        let (printed, ()) = futures_util::join!(join_all(runs), recovery);
        assert_eq!(printed[0]["failed"], 0, "{language}: {printed:?}");
        assert_eq!(printed[1]["data"]["externalId"], language, "{printed:?}");
    }
    assert_eq!(world.pipeline(&[]).await.len(), 2 * LANGUAGES.len());
}
