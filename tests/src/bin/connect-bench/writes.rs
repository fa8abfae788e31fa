//! New clients, through the API and straight into Postgres.

use crate::reads::tenant;
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};
use tests::World;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

/// Makes a client and gives its id.
pub(crate) async fn create(world: &World) -> Uuid {
    let count = next();
    let body = json!({"name": "Bench", "email": format!("record.{count}@example.net")}).to_string();
    let request = world.key.records("POST", &format!("{}/clients", tests::RECORDS), body);
    let answer = world.http().send(&request.with("idempotency-key", format!("bench-{count}"))).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()["data"]["id"].as_str().and_then(|id| id.parse().ok()).expect("an id")
}

/// The floor: a connection with the bare inserts of a write prepared, as one statement that commits durably.
pub(crate) struct Insert {
    connection: Client,
    statement: Statement,
    tenant: Uuid,
}

impl Insert {
    /// Into the programs' own database.
    pub(crate) async fn new(world: &World) -> Self {
        let connection = world.database.connect().await;
        let statement = connection.prepare(
            "WITH ledger AS (
                INSERT INTO event_ledger (tenant_id, event_id, event_type, key_prefix, request_id, ordinal, client_id,
                                          warnings, applied_at)
                VALUES ($1, $3, 'client.created', 'floor', $2, 0, $2, '{}', now())),
            answer AS (
                INSERT INTO idempotency_keys (tenant_id, key_prefix, idempotency_key, request_hash, status, body, created_at)
                VALUES ($1, 'floor', $3, sha256($3::text::bytea), 201, '{}', now()))
            INSERT INTO clients (tenant_id, client_id, name, email, email_key, client_type, created_at, updated_at)
            VALUES ($1, $2, 'Bench', $3, $3, 'individual', now(), now())",
        );
        let statement = statement.await.expect("the inserts fit the schema");
        Self { connection, statement, tenant: tenant(world).await }
    }

    /// Inserts one.
    pub(crate) async fn once(&self) {
        let email = format!("floor.{}@example.net", next());
        let written =
            self.connection.execute(&self.statement, &[&self.tenant, &Uuid::now_v7(), &email]).await;
        written.expect("the floor's inserts");
    }
}

fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
