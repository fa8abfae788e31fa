//! Many writes at once, over several programs (D17, D19, D23), and concurrent reads, which ingest looks up together
//! while their signatures are stored (D1, D3, D18, D23).

use super::{
    changeable_routes, client_route, data, get, joined_with_lead, lead_route, new_client, patch_request, post_as,
    post_request, record, records_target, send_at_once, trip_route, writes_used,
};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::collections::HashSet;
use tests::{ApiKey, HttpResponse, World, until_equal};

#[tokio::test]
async fn fifty_concurrent_posts_with_one_key_create_one_record() {
    let world = World::shared().await;
    for (route, table) in [("/clients", "clients"), ("/leads", "leads")] {
        let ana = json!({"email": format!("{table}@example.com")});
        let body = if table == "leads" { json!({"contact": ana}) } else { ana };
        let requests: Vec<_> = (0..50).map(|_| post_request(&world.key, route, table, &body)).collect();
        let responses = send_at_once(&world, &requests).await;
        let created = record(&responses[0], 201);
        assert!(responses.iter().all(|response| record(response, 201) == created), "{responses:?}");
        let first = responses.iter().filter(|response| response.header("idempotent-replayed").is_empty()).count();
        assert_eq!(first, 1, "one creates, the others are replays");
        assert_eq!(world.database.count(&format!("SELECT count(*) FROM {table}")).await, 1, "{table}");
    }
    assert_eq!(writes_used(&world).await, 2);
}

#[tokio::test]
async fn fifty_concurrent_posts_of_one_email_with_different_keys_create_one_client() {
    let world = World::shared().await;
    let requests: Vec<_> = (0..50)
        .map(|i| {
            let email = if i % 2 == 0 { "ana@example.com" } else { "ANA@Example.com" };
            post_request(&world.key, "/clients", &format!("k-{i}"), &json!({"email": email}))
        })
        .collect();
    let responses = send_at_once(&world, &requests).await;
    let (created, refused): (Vec<_>, Vec<_>) = responses.iter().partition(|response| response.status == 201);
    assert_eq!((created.len(), refused.len()), (1, 49), "{responses:?}");
    let id = &record(created[0], 201)["id"];
    for response in refused {
        assert_eq!(super::refused_with(response, 409, "client_exists", "clientId"), *id);
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1);
    assert_eq!(writes_used(&world).await, 1);
}

#[tokio::test]
async fn exactly_one_of_concurrent_patches_with_one_etag_succeeds() {
    let world = World::shared().await;
    for (route, field) in changeable_routes(&world).await.iter().cycle().take(9) {
        let etag = get(&world, route).await.header("etag").to_owned();
        let requests: Vec<_> = (0..10)
            .map(|i| {
                let body = json!({*field: format!("{i} of {etag}")});
                patch_request(&world.key, route, &body).with("if-match", &etag)
            })
            .collect();
        let responses = send_at_once(&world, &requests).await;
        let (done, stale): (Vec<_>, Vec<_>) = responses.iter().partition(|response| response.status == 200);
        assert_eq!((done.len(), stale.len()), (1, 9), "{route}: {responses:?}");
        let kept = record(done[0], 200);
        for response in stale {
            assert_eq!(super::refused_with(response, 412, "stale_write", "updatedAt"), kept["updatedAt"]);
        }
        assert_eq!(data(&get(&world, route).await, 200), kept, "{route}");
    }
}

#[tokio::test]
async fn exactly_one_of_concurrent_claims_of_an_external_id_succeeds() {
    let world = World::shared().await;
    let mut clients = Vec::new();
    for i in 0..8 {
        clients.push(new_client(&world, json!({"email": format!("{i}@example.com")})).await);
    }
    let requests: Vec<_> = clients
        .iter()
        .map(|client| patch_request(&world.key, &client_route(client), &json!({"externalId": "p-1"})))
        .collect();
    let responses = send_at_once(&world, &requests).await;
    let (done, refused): (Vec<_>, Vec<_>) = responses.iter().partition(|response| response.status == 200);
    assert_eq!((done.len(), refused.len()), (1, 7), "{responses:?}");
    let holder = &record(done[0], 200)["id"];
    for response in refused {
        assert_eq!(super::refused_with(response, 409, "identity_taken", "clientId"), *holder);
    }
}

#[tokio::test]
async fn keeps_all_concurrent_changes_to_different_fields() {
    let (world, lead) = joined_with_lead().await;
    let of_client =
        json!({"name": "Bo", "phone": "333", "company": "Bo & Co", "externalId": "p-1", "marketingOptIn": true});
    let dates = json!({"startDate": "2027-05-01", "endDate": "2027-05-02"});
    let of_trip = json!({"title": "South", "destination": "Goa", "travelDates": dates, "guestNationality": "IN"});
    let client = client_route(&json!({"id": lead["clientId"]}));
    for (route, fields) in [(client, of_client), (trip_route(&lead), of_trip)] {
        let fields = fields.as_object().expect("fields");
        let change =
            |(field, value): (&String, &Value)| patch_request(&world.key, &route, &json!({field.as_str(): value}));
        let requests: Vec<_> = fields.iter().map(change).collect();
        let responses = send_at_once(&world, &requests).await;
        let versions: HashSet<_> =
            responses.iter().map(|response| record(response, 200)["updatedAt"].to_string()).collect();
        assert_eq!(versions.len(), fields.len(), "every change has a version of its own: {versions:?}");
        let after = record(&get(&world, &route).await, 200);
        for (field, value) in fields {
            assert_eq!(after[field], *value, "{field}");
        }
    }
    assert_eq!(world.inbox(&lead["id"]).await.len(), 4, "each change of the trip is posted");
}

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
        let body = json!({"name": format!("{} {i}", key.tenant), "externalId": i.to_string(), "travelers": roster});
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
    let read =
        async |key: &ApiKey, route: &str| world.http().send(&key.records("GET", &records_target(route), "")).await;
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
    world.restart_ingest_with("CONNECT_STORE_TIMEOUT", "500ms").await;
    let blocker = world.database.begin("LOCK TABLE replay_entries IN ACCESS EXCLUSIVE MODE").await;
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
