//! `connectctl migrate`.

use serde_json::json;
use tests::{Connectctl, TestDatabase};

#[tokio::test]
async fn a_second_run_applies_nothing() {
    let database = TestDatabase::empty().await;
    let connectctl = Connectctl::for_database(database.url());
    let first = connectctl.json(&["migrate"]).await;
    let applied = first["applied"].as_array().expect("names");
    assert!(!applied.is_empty() && applied.iter().all(serde_json::Value::is_string), "{first}");
    assert_eq!(connectctl.json(&["migrate"]).await, json!({"applied": []}));
}

#[tokio::test]
async fn runs_at_once_apply_everything_once() {
    let database = TestDatabase::empty().await;
    let connectctl = Connectctl::for_database(database.url());
    let runs = futures_util::future::join_all((0..4).map(|_| connectctl.json(&["migrate"]))).await;
    let applied = runs.iter().filter(|run| **run != json!({"applied": []})).count();
    assert_eq!(applied, 1, "{runs:?}");
    connectctl.json(&["tenant", "create", "--slug", "acme", "--name", "Acme"]).await;
}

#[tokio::test]
async fn a_run_on_a_live_deployment_disturbs_nothing() {
    let world = tests::World::start().await;
    let ana = || tests::event("contact.identified").email("ana@example.com");
    let (_, migrated) = futures_util::join!(world.accept(ana()), world.connectctl.json(&["migrate"]));
    assert_eq!(migrated, json!({"applied": []}));
    world.accept(ana()).await;
}
