//! Concurrent reads, which ingest looks up together while their signatures are stored (D1, D3, D18, D23).

use super::{client_route, data, get, lead_route, new_client, post_as, record, records_target, trip_route};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tests::{ApiKey, HttpResponse, World, until_equal};

async fn set_reads_per_second(world: &World, reads: &str) {
    for tenant in ["acme", "zeta"] {
        world.connectctl.json(&["tenant", "set", "--tenant", tenant, "--reads-per-second", reads]).await;
    }
}

/// Records of a tenant with their routes: leads, their trips, and clients with rosters of several sizes.
async fn records_of(world: &World, key: &ApiKey) -> Vec<(String, Value)> {
    let mut records = Vec::new();
    for i in 0..6 {
        let roster: Vec<_> = (0..i % 4).map(|j| json!({"name": format!("{i}.{j}"), "age": 9 - j})).collect();
        let body =
            json!({"name": format!("{} {i}", key.tenant), "externalId": i.to_string(), "travelers": roster});
        let client = record(&post_as(world, key, "/clients", body).await, 201);
        let body = json!({"clientId": client["id"], "title": format!("{} {i}", key.tenant)});
        let lead = record(&post_as(world, key, "/leads", body).await, 201);
        let trip = world.http().send(&key.records("GET", &records_target(&trip_route(&lead)), "")).await;
        records.push((client_route(&client), client));
        records.push((trip_route(&lead), record(&trip, 200)));
        records.push((lead_route(&lead), lead));
    }
    records
}

#[tokio::test]
async fn concurrent_reads_return_their_own_record_and_none_of_another_tenant() {
    let world = World::shared().await;
    let zeta = world.add_tenant("zeta").await;
    set_reads_per_second(&world, "10000").await;
    let (ours, theirs) = (records_of(&world, &world.key).await, records_of(&world, &zeta).await);
    let read = async |key: &ApiKey, route: &str| {
        world.http().send(&key.records("GET", &records_target(route), "")).await
    };
    let reads = [(&world.key, &ours, &theirs), (&zeta, &theirs, &ours)].map(|(key, own, others)| {
        let own = join_all(own.iter().map(async |(route, shown)| (read(key, route).await, shown)));
        let others = join_all(others.iter().map(async |(route, _)| read(key, route).await));
        futures_util::future::join(own, others)
    });
    for (own, others) in join_all(reads).await {
        for (response, shown) in own {
            assert_eq!(record(&response, 200), *shown);
        }
        for response in others {
            response.assert_error(404, "not_found");
        }
    }
}

#[tokio::test]
async fn returns_no_record_while_its_signature_cannot_be_stored() {
    let mut world = World::start().await;
    let client = new_client(&world, json!({"email": "ana@example.com"})).await;
    world.set("CONNECT_STORE_TIMEOUT", "500ms");
    world.restart_ingest().await;
    let blocker = world.database.connect().await;
    let lock = "BEGIN; LOCK TABLE replay_entries IN ACCESS EXCLUSIVE MODE";
    blocker.batch_execute(lock).await.expect("the table can be locked");
    let routes = [client_route(&client), "/clients?email=ana@example.com".to_owned()];
    for response in join_all(routes.iter().map(|route| get(&world, route))).await {
        response.assert_error(503, "replay_store_unavailable");
    }
    blocker.batch_execute("ROLLBACK").await.expect("the lock is released");
    until_equal("reads pass again", 200, async || get(&world, &routes[0]).await.status).await;
    assert_eq!(record(&get(&world, &routes[0]).await, 200), client);
}

#[tokio::test]
async fn a_replayed_read_gets_401_even_over_the_rate_limit_and_does_not_count() {
    let world = World::shared().await;
    world.add_tenant("zeta").await;
    set_reads_per_second(&world, "2").await;
    let read = world.key.records("GET", &records_target("/clients?phone=1"), "");
    data(&world.http().send(&read).await, 200);
    let again = async || -> HttpResponse { world.http().send(&read).await };
    for _ in 0..10 {
        again().await.assert_error(401, "unauthorized");
    }
    // The second of two.
    data(&get(&world, "/clients?phone=1").await, 200);
    let responses = join_all((0..20).map(|_| get(&world, "/clients?phone=1"))).await;
    assert!(responses.iter().any(|response| response.status == 429), "{responses:?}");
    again().await.assert_error(401, "unauthorized");
}
