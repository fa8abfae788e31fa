//! Records of commands that fail, and of migrations.

use super::{count, last};
use serde_json::{Value, json};
use tests::{Connectctl, TestDatabase, World, text};
use uuid::Uuid;

/// Not the master key of the tests.
const OTHER_MASTER_KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

#[tokio::test]
async fn a_command_that_fails_adds_no_record() {
    let world = World::start().await;
    let (id, before) = (Uuid::now_v7().to_string(), count(&world.database).await);
    let refused: &[&[&str]] = &[
        &["tenant", "create", "--slug", "acme", "--name", "Again"],
        &["tenant", "set", "--tenant", "nobody", "--discovery", "true"],
        &["member", "add", "--tenant", "nobody", "--email", "a@b.test", "--name", "A"],
        &["member", "remove", "--tenant", "acme", "--email", "nobody@acme.test"],
        &["company", "create", "--tenant", "nobody", "--name", "A", "--domain", "a.test"],
        &["key", "create", "--tenant", "nobody", "--name", "k", "--scopes", "events:ingest"],
        &["key", "scopes", "ck_nobody", "--set", "events:ingest"],
        &["key", "revoke", "ck_nobody"],
        &["key", "rotate-secret", "ck_nobody"],
        &["key", "end-overlap", "ck_nobody"],
        &["subscription", "create", "--tenant", "acme", "--url", "ftp://a.test/"],
        &["subscription", "pause", &id],
        &["subscription", "resume", &id],
        &["subscription", "remove", &id],
        &["subscription", "rotate-secret", &id],
        &["delivery", "replay", &id],
        &["delivery", "replay", "--dead", "--tenant", "nobody"],
        &["advisor", "archive", "--tenant", "nobody", "--lead", &id],
    ];
    for arguments in refused {
        world.connectctl.refusal(arguments).await;
    }
    let nowhere = world.connectctl.without("CONNECT_QUEUE_PREFIX").and("CONNECT_QUEUE_PREFIX", "nowhere");
    for arguments in [&["queue", "requeue", "events", "--dead"][..], &["queue", "drop", "events", "--dead"]] {
        nowhere.refusal(arguments).await;
    }
    let other_key =
        world.connectctl.without("CONNECT_MASTER_KEY").and("CONNECT_MASTER_KEY", OTHER_MASTER_KEY);
    for arguments in [
        &["secrets", "rotate"][..],
        &["key", "create", "--tenant", "acme", "--name", "k", "--scopes", "events:ingest"],
    ] {
        other_key.refusal(arguments).await;
    }
    assert_eq!(count(&world.database).await, before);
}

#[tokio::test]
async fn an_advisor_action_that_the_worker_refuses_is_recorded_as_an_attempt() {
    let world = World::shared().await;
    let (lead, before) = (Uuid::now_v7().to_string(), count(&world.database).await);
    world.connectctl.refusal(&["advisor", "archive", "--tenant", "acme", "--lead", &lead]).await;
    assert_eq!(count(&world.database).await, before + 1);
    let added = last(&world.database).await;
    assert_eq!((&added["action"], &added["target"]), (&json!("advisor.archive"), &json!(lead)));
}

#[tokio::test]
async fn each_migration_is_recorded() {
    let database = TestDatabase::empty().await;
    let connectctl = Connectctl::for_database(database.url());
    let applied = connectctl.json(&["migrate"]).await["applied"].clone();
    let names: Vec<&str> = applied.as_array().expect("names").iter().map(text).collect();
    assert_eq!(connectctl.json(&["migrate"]).await, json!({"applied": []}));
    let records = connectctl.list(&["audit"]).await;
    let recorded: Vec<&str> = records.iter().map(|record| text(&record["target"])).collect();
    assert_eq!(recorded, names);
    for record in &records {
        assert_eq!((&record["action"], &record["tenant"]), (&json!("schema.migrate"), &Value::Null));
    }
}
