//! Reads at once, which ingest looks up together and while their signatures are written (D1, D3, D18, D23).

use super::{at, client_route, data, get, lead_route, new_client, post_as, record, trip_route};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tests::{Answer, ApiKey, PATIENCE, World, eventually};

async fn set_reads_per_second(world: &World, reads: &str) {
    for tenant in ["acme", "zeta"] {
        world.connectctl.json(&["tenant", "set", "--tenant", tenant, "--reads-per-second", reads]).await;
    }
}

/// Records of an agency with their routes: enquiries, their trips, and clients with rosters of several sizes.
async fn records_of(world: &World, key: &ApiKey) -> Vec<(String, Value)> {
    let mut records = Vec::new();
    for i in 0..6 {
        let roster: Vec<_> = (0..i % 4).map(|j| json!({"name": format!("{i}.{j}"), "age": 9 - j})).collect();
        let body =
            json!({"name": format!("{} {i}", key.tenant), "externalId": i.to_string(), "travelers": roster});
        let client = record(&post_as(world, key, "/clients", body).await, 201);
        let body = json!({"clientId": client["id"], "title": format!("{} {i}", key.tenant)});
        let lead = record(&post_as(world, key, "/leads", body).await, 201);
        let trip = world.http().send(&key.records("GET", &at(&trip_route(&lead)), "")).await;
        records.push((client_route(&client), client));
        records.push((trip_route(&lead), record(&trip, 200)));
        records.push((lead_route(&lead), lead));
    }
    records
}

#[tokio::test]
async fn reads_at_once_show_each_its_own_record_and_nothing_of_another_agency() {
    let world = World::start().await;
    let zeta = world.add_tenant("zeta").await;
    set_reads_per_second(&world, "10000").await;
    let (ours, theirs) = (records_of(&world, &world.key).await, records_of(&world, &zeta).await);
    let read = async |key: &ApiKey, route: &str| world.http().send(&key.records("GET", &at(route), "")).await;
    let reads = [(&world.key, &ours, &theirs), (&zeta, &theirs, &ours)].map(|(key, own, others)| {
        let own = join_all(own.iter().map(async |(route, shown)| (read(key, route).await, shown)));
        let others = join_all(others.iter().map(async |(route, _)| read(key, route).await));
        futures_util::future::join(own, others)
    });
    for (own, others) in join_all(reads).await {
        for (answer, shown) in own {
            assert_eq!(record(&answer, 200), *shown);
        }
        for answer in others {
            answer.assert_error(404, "not_found");
        }
    }
}

#[tokio::test]
async fn of_one_signed_read_sent_twenty_times_at_once_one_is_shown_the_record() {
    let world = World::with().ingests(2).start().await;
    let client = new_client(&world, json!({"email": "ana@example.com"})).await;
    let request = world.key.records("GET", &at(&client_route(&client)), "");
    let answers = super::at_once(&world, &vec![request; 20]).await;
    let (shown, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert_eq!(record(shown[0], 200), client);
    assert_eq!((shown.len(), refused.len()), (1, 19));
    for answer in refused {
        answer.assert_error(401, "unauthorized");
    }
}

#[tokio::test]
async fn a_record_that_could_be_read_is_not_shown_while_no_signature_can_be_written() {
    let mut world = World::start().await;
    let client = new_client(&world, json!({"email": "ana@example.com"})).await;
    world.set("CONNECT_STORE_TIMEOUT", "500ms");
    world.restart_ingest().await;
    let blocker = world.database.connect().await;
    let lock = "BEGIN; LOCK TABLE replay_entries IN ACCESS EXCLUSIVE MODE";
    blocker.batch_execute(lock).await.expect("the table can be locked");
    let routes = [client_route(&client), "/clients?email=ana@example.com".to_owned()];
    for answer in join_all(routes.iter().map(|route| get(&world, route))).await {
        answer.assert_error(503, "replay_store_unavailable");
    }
    blocker.batch_execute("ROLLBACK").await.expect("the lock goes");
    eventually("reads pass again", PATIENCE, async || match get(&world, &routes[0]).await {
        answer if answer.status == 200 => {
            assert_eq!(record(&answer, 200), client);
            Ok(())
        }
        answer => Err(format!("{answer:?}")),
    })
    .await;
}

#[tokio::test]
async fn a_used_signature_is_unauthorized_beyond_the_limit_too_and_does_not_count() {
    let world = World::start().await;
    world.add_tenant("zeta").await;
    set_reads_per_second(&world, "2").await;
    let read = world.key.records("GET", &at("/clients?phone=1"), "");
    data(&world.http().send(&read).await, 200);
    let again = async || -> Answer { world.http().send(&read).await };
    for _ in 0..10 {
        again().await.assert_error(401, "unauthorized");
    }
    // The second of two.
    data(&get(&world, "/clients?phone=1").await, 200);
    let answers = join_all((0..20).map(|_| get(&world, "/clients?phone=1"))).await;
    assert!(answers.iter().any(|answer| answer.status == 429), "{answers:?}");
    again().await.assert_error(401, "unauthorized");
}
