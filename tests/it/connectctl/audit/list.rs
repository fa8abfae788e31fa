//! What `connectctl audit` lists.

use super::add_records;
use crate::connectctl::{fields, is_time};
use admin::audit::AuditFilter;
use chrono::TimeDelta;
use common::clock;
use serde_json::{Value, json};
use tests::{Connectctl, TestDatabase, text};

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
    let actions = |records: &[Value]| {
        records.iter().map(|record| text(&record["action"]).to_owned()).collect::<Vec<_>>()
    };
    let last_three = &all[all.len() - 3..];
    assert_eq!(actions(last_three), ["tenant.create", "tenant.set", "secrets.rotate"]);
    assert_eq!(last_three[2]["tenant"], Value::Null);
    let beta = connectctl.list(&["audit", "--tenant", "beta"]).await;
    assert_eq!(beta, last_three[..1]);
    let acme = connectctl.list(&["audit", "--tenant", "acme"]).await;
    assert!(acme.len() >= 5 && acme.iter().all(|record| record["tenant"] == "acme"), "{acme:?}");
    assert_eq!(actions(&acme).last().map(String::as_str), Some("tenant.set"));
    assert_eq!(connectctl.list(&["audit", "--limit", "1"]).await, last_three[2..]);
    let refusal = connectctl.refusal(&["audit", "--tenant", "nobody"]).await;
    assert!(refusal.contains("tenant \"nobody\" does not exist"), "{refusal}");
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
            .run(
                &[&["audit", "--tenant", "acme", "--action", "test.", "--who", "Na\u{308}"], options]
                    .concat(),
            )
            .await;
        assert_eq!(printed.code, Some(0), "{printed:?}");
        printed.output
    };
    let lines = export(&["--export", "jsonl"]).await;
    let records: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("a record")).collect();
    assert_eq!((records.len(), &records[0]["target"]), (1_500, &json!("1499")));
    assert_eq!(fields(&records[0]), ["action", "at", "interface", "target", "tenant", "who"]);
    let csv = export(&["--export", "csv", "--limit", "2"]).await;
    let targets: Vec<&str> = csv.lines().filter_map(|line| line.split(',').nth(4)).collect();
    assert_eq!(targets, ["target", "1499", "1498"], "{csv}");
    let recorded = connectctl.list(&["audit", "--tenant", "acme", "--action", "audit."]).await;
    assert_eq!(recorded.len(), 2, "{recorded:?}");
    assert!(recorded.iter().all(|record| record["action"] == "audit.export" && record["target"] == "acme"));
    // Names as people type them, whatever the case and the letters that IDNA keeps apart.
    for (name, typed) in [("ΑΝΔΡΟΣΑΚΗΣ", "ανδρος"), ("Groß ﬁ", "GROSS FI"), ("\u{17f}am", "Sam")]
    {
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
