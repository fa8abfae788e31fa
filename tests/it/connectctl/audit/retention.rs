//! Records cannot be changed; they expire after their period.

use super::{add_records, count};
use chrono::TimeDelta;
use common::clock;
use serde_json::{Value, json};
use tests::{Connectctl, TestDatabase};
use tokio_postgres::error::SqlState;

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

#[tokio::test]
async fn records_expire_after_their_period() {
    let database = TestDatabase::new().await;
    let (connectctl, margin) = (Connectctl::for_database(database.url()), TimeDelta::minutes(10));
    let bound = clock::now() - TimeDelta::days(365);
    add_records(&database, bound - margin, 700).await;
    add_records(&database, bound + margin, 1).await;
    let of = |reports: &[Value]| {
        let report = reports.iter().find(|report| report["what"] == "audit_records");
        report.expect("a report").clone()
    };
    let plan = connectctl.list(&["retention", "plan"]).await;
    assert_eq!(of(&plan), json!({"what": "audit_records", "keep": "365d", "due": 700}));
    let kept = connectctl.clone().and("CONNECT_RETENTION_AUDIT", "off");
    assert_eq!(of(&kept.list(&["retention", "run"]).await)["removed"], 0);
    let removed = connectctl.list(&["retention", "run"]).await;
    assert_eq!(of(&removed), json!({"what": "audit_records", "removed": 700}));
    let left = connectctl.list(&["audit"]).await;
    let old: Vec<&Value> = left.iter().filter(|record| record["action"] == "test.action").collect();
    assert_eq!(old.len(), 1, "{old:?}");
    let recorded = left.iter().filter(|record| record["action"] == "retention.run").count();
    assert_eq!(recorded, 2, "recent records stay");
}
