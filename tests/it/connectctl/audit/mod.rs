//! `connectctl audit`, and the records that all other commands add. They cannot be changed; `retention/rules.rs` checks
//! that they expire.

mod commands;

use crate::connectctl::{fields, is_time};
use admin::audit::AuditFilter;
use chrono::{DateTime, TimeDelta, Utc};
use common::clock;
use serde_json::{Value, json};
use tests::{Connectctl, TestDatabase, World, text, words};
use tokio_postgres::error::SqlState;
use uuid::Uuid;

const RECORDS: &str = "SELECT a.at, a.who, a.interface, a.action, a.target, t.slug AS tenant FROM audit_records a
    LEFT JOIN tenants t USING (tenant_id) ORDER BY a.audit_id";

async fn count(database: &TestDatabase) -> i64 {
    database.count("SELECT count(*) FROM audit_records").await
}

async fn last(database: &TestDatabase) -> Value {
    database.rows(RECORDS, &[]).await.pop().expect("a record")
}

/// Adds records of one millisecond each from `first` on.
pub(crate) async fn add_records(database: &TestDatabase, first: DateTime<Utc>, number: i64) {
    let insert = "INSERT INTO audit_records (tenant_id, audit_id, at, who, interface, action, target)
        SELECT t.tenant_id,
               (lpad(to_hex($1::bigint + n), 12, '0') || '7000' || '8000000000000000')::uuid,
               to_timestamp(($1::bigint + n) / 1000.0), 'anÄ', 'console', 'test.action', n::text
        FROM tenants t, generate_series(0, $2::bigint - 1) n WHERE t.slug = 'acme'";
    let client = database.connect().await;
    client.execute(insert, &[&first.timestamp_millis(), &number]).await.expect("records");
}

#[tokio::test]
async fn lists_records_of_all_tenants_or_of_one_newest_last() {
    let database = TestDatabase::new().await;
    let connectctl = Connectctl::for_database(database.url());
    connectctl.json(&["tenant", "create", "--slug", "beta", "--name", "Beta"]).await;
    connectctl.json(&["tenant", "set", "--tenant", "acme", "--monthly-quota", "5"]).await;
    connectctl.json(&["secrets", "rotate"]).await;
    let all = connectctl.list(&["audit"]).await;
    assert_eq!(fields(&all[0]), ["action", "at", "interface", "target", "tenant", "who"]);
    assert!(all.iter().all(|record| is_time(&record["at"])), "{all:?}");
    let actions =
        |records: &[Value]| records.iter().map(|record| text(&record["action"]).to_owned()).collect::<Vec<_>>();
    let last_three = &all[all.len() - 3..];
    assert_eq!(actions(last_three), ["tenant.create", "tenant.set", "secrets.rotate"]);
    assert_eq!(last_three[2]["tenant"], Value::Null);
    assert_eq!(connectctl.list(&["audit", "--tenant", "beta"]).await, last_three[..1]);
    let acme = connectctl.list(&["audit", "--tenant", "acme"]).await;
    assert!(acme.len() >= 5 && acme.iter().all(|record| record["tenant"] == "acme"), "{acme:?}");
    assert_eq!(actions(&acme).last().map(String::as_str), Some("tenant.set"));
    assert_eq!(connectctl.list(&["audit", "--limit", "1"]).await, last_three[2..]);
    connectctl.assert_refusal(&["audit", "--tenant", "nobody"], "tenant \"nobody\" does not exist").await;
    let table = connectctl.run(&["audit"]).await;
    assert!(table.output.contains("Who") && table.output.contains("secrets.rotate"), "{table:?}");
}

#[tokio::test]
async fn a_range_of_times_is_exported_page_by_page() {
    let database = TestDatabase::new().await;
    let connectctl = Connectctl::for_database(database.url());
    let first = clock::now() - TimeDelta::days(10);
    add_records(&database, first, 2_500).await;
    let at = |millis| clock::to_text(first + TimeDelta::milliseconds(millis));
    let export = async |of: &[&str], from: i64, to: i64| {
        let range = ["audit", "--from", &at(from), "--to", &at(to)];
        connectctl.list(&[&range, of].concat()).await
    };
    let numbers = |records: &[Value]| -> Vec<String> {
        records.iter().map(|record| text(&record["target"]).to_owned()).collect()
    };
    let expected = |from: i64, to: i64| (from..to).map(|n| n.to_string()).collect::<Vec<_>>();
    for of in [&[][..], &["--tenant", "acme"]] {
        assert_eq!(numbers(&export(of, 0, 2_500).await), expected(0, 2_500));
        assert_eq!(numbers(&export(of, 7, 2_007).await), expected(7, 2_007));
        assert_eq!(numbers(&export(of, 0, 1).await), ["0"]);
        let cut = [of, &["--limit", "1001"]].concat();
        assert_eq!(numbers(&export(&cut, 0, 2_500).await), expected(1_499, 2_500));
    }
    let all = export(&[], 0, 2_500).await;
    assert_eq!((&all[3]["at"], &all[3]["who"]), (&json!(at(3)), &json!("anÄ")));
}

#[tokio::test]
async fn records_are_filtered_and_exported_and_each_export_is_recorded() {
    // Its `lower` knows no letters beyond ASCII.
    let database = TestDatabase::empty_with("LOCALE 'C' TEMPLATE template0").await;
    let connectctl = Connectctl::for_database(database.url());
    connectctl.json(&["migrate"]).await;
    connectctl.json(&["tenant", "create", "--slug", "acme", "--name", "Acme"]).await;
    add_records(&database, clock::now() - TimeDelta::days(10), 1_500).await;
    let export = async |options: &[&str]| {
        let printed = connectctl
            .run(&[&["audit", "--tenant", "acme", "--action", "test.", "--who", "Na\u{308}"], options].concat())
            .await;
        assert_eq!(printed.code, Some(0), "{printed:?}");
        printed.output
    };
    let lines = export(&["--export", "jsonl"]).await;
    let records: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("a record")).collect();
    assert_eq!((records.len(), &records[0]["target"]), (1_500, &json!("1499")));
    assert_eq!(fields(&records[0]), ["action", "at", "interface", "target", "tenant", "who"]);
    let csv = export(&["--export", "csv", "--limit", "2"]).await;
    let targets: Vec<&str> = csv.lines().filter_map(|line| line.split(',').nth(4)).collect();
    assert_eq!(targets, ["target", "1499", "1498"], "{csv}");
    let recorded = connectctl.list(&["audit", "--tenant", "acme", "--action", "audit."]).await;
    assert_eq!(recorded.len(), 2, "{recorded:?}");
    assert!(recorded.iter().all(|record| record["action"] == "audit.export" && record["target"] == "acme"));
    // Names as people type them, whatever the case and the letters that IDNA keeps apart.
    for (name, typed) in [("ΑΝΔΡΟΣΑΚΗΣ", "ανδρος"), ("Groß ﬁ", "GROSS FI"), ("\u{17f}am", "Sam")] {
        let add = format!(
            "INSERT INTO audit_records (tenant_id, audit_id, at, who, interface, action, target)
             SELECT tenant_id, gen_random_uuid(), now(), '{name}', 'console', 'test.action', '' FROM tenants"
        );
        database.execute(&add).await;
        let found = connectctl.list(&["audit", "--tenant", "acme", "--who", typed]).await;
        assert_eq!(found.len(), 1, "{name} {typed}");
    }
    let refusal = connectctl.run(&["audit", "--export", "xls"]).await;
    assert!(refusal.code == Some(2) && refusal.errors.contains("csv or jsonl"), "{refusal:?}");
}

#[tokio::test]
async fn a_page_continues_before_the_record_that_it_is_given() {
    let database = TestDatabase::new().await;
    add_records(&database, clock::now() + TimeDelta::days(1), 5).await;
    let client = database.connect().await;
    let mut filter = AuditFilter { tenant: Some("acme".to_owned()), ..AuditFilter::default() };
    let mut seen = Vec::new();
    for _ in 0..2 {
        let page = admin::audit::list(&client, &filter, 2).await.expect("a page");
        assert!(page.is_cut && page.items.len() == 2, "{page:?}");
        filter.before = page.items.first().map(|record| record.id);
        seen.extend(page.items.into_iter().rev().map(|record| record.target));
    }
    assert_eq!(seen, ["4", "3", "2", "1"]);
}

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
    let other_key = world.connectctl.without("CONNECT_MASTER_KEY").and("CONNECT_MASTER_KEY", OTHER_MASTER_KEY);
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

#[tokio::test]
async fn records_cannot_be_changed_or_removed() {
    let database = TestDatabase::new().await;
    let (client, before) = (database.connect().await, count(&database).await);
    assert!(before > 0);
    for refused in [
        "UPDATE audit_records SET who = 'somebody else'",
        "DELETE FROM audit_records",
        "DELETE FROM audit_records WHERE false",
        "TRUNCATE audit_records",
        "TRUNCATE tenants, audit_records CASCADE",
    ] {
        let error = client.batch_execute(refused).await.expect_err(refused);
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{refused}: {error:?}");
    }
    for refused in ["now()", "now() - interval '22 hours'", "NULL"] {
        let expire = format!("SELECT expire_audit_records({refused}, '-infinity', 10)");
        let error = client.batch_execute(&expire).await.expect_err(refused);
        assert_eq!(error.code(), Some(&SqlState::INVALID_PARAMETER_VALUE), "{refused}: {error:?}");
    }
    assert_eq!(count(&database).await, before);
}
