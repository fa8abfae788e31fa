//! `connectctl audit`, and the records that all other commands add.

mod commands;
mod list;
mod refusals;
mod retention;

use chrono::{DateTime, Utc};
use serde_json::Value;
use tests::TestDatabase;

const RECORDS: &str =
    "SELECT a.at, a.who, a.interface, a.action, a.target, t.slug AS tenant FROM audit_records a
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
