//! Retention: what expires, what never does, and what removing it costs.

mod behind;
mod dead_letters;
mod growth;
mod programs;
mod rules;

use chrono::{DateTime, TimeDelta, Utc};
use common::clock;
use serde_json::Value;
use tests::{TestDatabase, text};
use uuid::{Timestamp, Uuid};

/// A UUIDv7 of that time.
fn id_at(at: DateTime<Utc>) -> Uuid {
    Uuid::new_v7(Timestamp::from_unix_time(at.timestamp().unsigned_abs(), at.timestamp_subsec_nanos(), 0, 0))
}

fn days_ago(days: i64) -> DateTime<Utc> {
    clock::now() - TimeDelta::days(days)
}

async fn tenant(database: &TestDatabase) -> Uuid {
    let rows = database.rows("SELECT tenant_id FROM tenants WHERE slug = 'acme'", &[]).await;
    text(&rows[0]["tenant_id"]).parse().expect("a UUID")
}

/// An event of the outbox with one delivery, as the dispatcher records them.
struct Webhook {
    event: Uuid,
    delivery: Uuid,
}

impl Webhook {
    /// Writes an event of `at` that was fanned out, and its delivery in `state` with two attempts, the last one `attempted`.
    async fn write(
        database: &TestDatabase,
        state: &str,
        at: DateTime<Utc>,
        attempted: DateTime<Utc>,
    ) -> Self {
        let (event, tenant) = (id_at(at), tenant(database).await);
        // With the time of its event, as the dispatcher derives it.
        let delivery = id_at(at);
        let client = database.connect().await;
        let outbox = "INSERT INTO outbox (tenant_id, event_id, event_type, origin, envelope, created_at)
            VALUES ($1, $2, 'lead.assigned', 'crm', '{}', $3)";
        client.execute(outbox, &[&tenant, &event, &at]).await.expect("an event");
        let row =
            "INSERT INTO deliveries (tenant_id, delivery_id, event_id, subscription_id, state, attempts,
                created_at, last_at, number, next_attempt_at)
            SELECT $1, $2, $3, $1, $4, 2, $5, $6, 1 + count(*), CASE $4 WHEN 'pending' THEN $5::timestamptz END
            FROM deliveries";
        client
            .execute(row, &[&tenant, &delivery, &event, &state, &at, &attempted])
            .await
            .expect("a delivery");
        let attempts = "INSERT INTO attempts (tenant_id, delivery_id, attempt, at, status, duration_ms)
            VALUES ($1, $2, 1, $3, 500, 1), ($1, $2, 2, $4, 200, 1)";
        client.execute(attempts, &[&tenant, &delivery, &at, &attempted]).await.expect("attempts");
        Self { event, delivery }
    }

    /// The number of rows of the outbox, of deliveries and of attempts that are left.
    async fn rows(&self, database: &TestDatabase) -> [i64; 3] {
        let (event, delivery) = (self.event, self.delivery);
        [
            database.count(&format!("SELECT count(*) FROM outbox WHERE event_id = '{event}'")).await,
            database
                .count(&format!("SELECT count(*) FROM deliveries WHERE delivery_id = '{delivery}'"))
                .await,
            database.count(&format!("SELECT count(*) FROM attempts WHERE delivery_id = '{delivery}'")).await,
        ]
    }
}

/// The field of the report about `what`.
fn of<'r>(reports: &'r [Value], what: &str, field: &str) -> &'r Value {
    let report = reports.iter().find(|report| report["what"] == what);
    &report.unwrap_or_else(|| panic!("nothing about {what}: {reports:?}"))[field]
}
