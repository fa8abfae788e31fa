//! Reads of one client over several connections. Floor: the bare prepared `SELECT` by primary key over as many connections.

use crate::caller::Caller;
use crate::figures::{LoadStats, measure, timed};
use crate::prepare::api_address;
use crate::random::Random;
use crate::request;
use futures_util::future::join_all;
use std::time::Duration;
use tests::{RECORDS, World};
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

/// Reads through the API. Each request differs in its query, so that its signature does.
pub(crate) async fn load(world: &World, client: Uuid, connections: usize, length: Duration) -> LoadStats {
    let connect = async || (Caller::connect(api_address(world)).await, Random::new());
    let mut callers = join_all((0..connections).map(|_| connect())).await;
    measure(&mut callers, length, 1, async |(caller, random): &mut (Caller, Random)| {
        let target = format!("{RECORDS}/clients/{client}?n={}", random.uuid());
        let (response, took) =
            timed(caller.send(&request::records(&world.key, "GET", &target, "", None))).await;
        assert_eq!(response.status, 200, "{response:?}");
        took
    })
    .await
}

/// Looks the client up straight in Postgres.
pub(crate) async fn floor(world: &World, client: Uuid, connections: usize, length: Duration) -> LoadStats {
    let connect = async || {
        let connection = world.database.connect().await;
        let statement =
            connection.prepare("SELECT * FROM clients WHERE tenant_id = $1 AND client_id = $2").await;
        (connection, statement.expect("the look-up fits the schema"))
    };
    let tenant = tenant(world).await;
    let mut connections = join_all((0..connections).map(|_| connect())).await;
    measure(&mut connections, length, 1, async |(connection, statement): &mut (Client, Statement)| {
        let (row, took) = timed(connection.query_one(&*statement, &[&tenant, &client])).await;
        row.expect("the client exists");
        took
    })
    .await
}

/// Any client of the tenant.
pub(crate) async fn any_client(world: &World) -> Uuid {
    let statement = "SELECT client_id FROM clients JOIN tenants USING (tenant_id)
        WHERE slug = 'acme' AND client_type = 'individual' LIMIT 1";
    world.database.connect().await.query_one(statement, &[]).await.expect("a client").get(0)
}

async fn tenant(world: &World) -> Uuid {
    let statement = "SELECT tenant_id FROM tenants WHERE slug = 'acme'";
    world.database.connect().await.query_one(statement, &[]).await.expect("the tenant").get(0)
}
