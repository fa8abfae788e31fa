//! Records of commands that fail, and of migrations.

use super::{count, last};
use serde_json::{Value, json};
use tests::{Connectctl, TestDatabase, World, text, words};
use uuid::Uuid;

/// Not the master key of the tests.
const OTHER_MASTER_KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

#[tokio::test]
async fn a_command_that_fails_adds_no_record() {
    let world = World::start().await;
    let foreign = world.add_tenant("zeta").await.prefix;
    let (id, before) = (Uuid::now_v7().to_string(), count(&world.database).await);
    let rows = [
        "tenant create --slug acme --name Again",
        "tenant create --slug ACME --name Again",
        "tenant set --tenant nobody --discovery true",
        "member add --tenant nobody --email a@b.test --name A",
        "member list --tenant nobody",
        "member remove --tenant acme --email nobody@acme.test",
        "company create --tenant nobody --name A --domain a.test",
        "key create --tenant nobody --name k --scopes events:ingest",
        "key create --tenant acme --name k --scopes events:read",
        "key create --tenant acme --name k --scopes events:ingest,admin",
        "key create --tenant acme --name k --scopes ,",
        "key scopes ck_nobody --set events:ingest",
        "key revoke ck_nobody",
        "key rotate-secret ck_nobody",
        "key end-overlap ck_nobody",
        "subscription create --tenant nobody --url https://1.1.1.1/",
        "subscription create --tenant acme --url ftp://a.test/",
        "subscription create --tenant acme --url http://1.1.1.1/hooks",
        "subscription create --tenant acme --url https://10.0.0.1/",
        "subscription create --tenant acme --url https://[::ffff:127.0.0.1]/",
        "subscription create --tenant acme --url https://no-such-name.invalid/",
        "subscription create --tenant acme --url https://1.1.1.1:22/",
        "subscription create --tenant acme --url ",
        "subscription create --tenant acme --url https://1.1.1.1/ --events lead.deleted",
        "subscription create --tenant acme --url https://1.1.1.1/ --events proposal.ready",
        "subscription create --tenant acme --url https://1.1.1.1/ --events message.posted",
        "subscription create --tenant acme --url https://1.1.1.1/ --key ck_unknown",
        "subscription create --tenant acme --url https://1.1.1.1/ --key FOREIGN",
        "subscription pause ID",
        "subscription resume ID",
        "subscription remove ID",
        "subscription rotate-secret ID",
        "delivery replay ID",
        "delivery replay --dead --tenant nobody",
        "advisor archive --tenant nobody --lead ID",
        "timeline --tenant acme --client ID",
        "timeline --tenant acme --client none",
        "inbox --tenant acme --lead ID",
        "invoice --tenant acme --lead ID",
        "discovery --tenant acme --client ID",
        "pipeline --tenant nobody",
        "notifications --tenant nobody",
        "usage --tenant nobody",
    ];
    for row in rows {
        world.connectctl.refusal(&words(&row.replace("ID", &id).replace("FOREIGN", &foreign))).await;
    }
    let nowhere = world.connectctl.without("CONNECT_QUEUE_PREFIX").and("CONNECT_QUEUE_PREFIX", "nowhere");
    for arguments in ["queue requeue events --dead", "queue drop events --dead"] {
        nowhere.refusal(&words(arguments)).await;
    }
    let other_key =
        world.connectctl.without("CONNECT_MASTER_KEY").and("CONNECT_MASTER_KEY", OTHER_MASTER_KEY);
    for arguments in ["secrets rotate", "key create --tenant acme --name k --scopes events:ingest"] {
        other_key.refusal(&words(arguments)).await;
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
