//! Reads of one client, through the API and straight from Postgres.

use std::sync::atomic::{AtomicU64, Ordering};
use tests::World;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

/// Reads the client with that id. Each request differs in its query, so that its signature does.
pub(crate) async fn read(world: &World, client: Uuid) {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let target = format!("{}/clients/{client}?n={count}", tests::RECORDS);
    let answer = world.http().send(&world.key.records("GET", &target, "")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// The floor: a connection with the bare look-up by primary key prepared.
pub(crate) struct Lookup {
    connection: Client,
    statement: Statement,
    tenant: Uuid,
    client: Uuid,
}

impl Lookup {
    /// Of that client.
    pub(crate) async fn new(world: &World, client: Uuid) -> Self {
        let connection = world.database.connect().await;
        let statement =
            connection.prepare("SELECT * FROM clients WHERE tenant_id = $1 AND client_id = $2").await;
        let statement = statement.expect("the look-up fits the schema");
        Self { connection, statement, tenant: tenant(world).await, client }
    }

    /// Looks it up once.
    pub(crate) async fn once(&self) {
        let row = self.connection.query_one(&self.statement, &[&self.tenant, &self.client]).await;
        row.expect("the client is there");
    }
}

/// The agency whose records these are.
pub(crate) async fn tenant(world: &World) -> Uuid {
    let row = world
        .database
        .connect()
        .await
        .query_one("SELECT tenant_id FROM tenants WHERE slug = 'acme'", &[])
        .await;
    row.expect("the agency is there").get(0)
}
