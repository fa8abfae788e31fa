//! A replica that stalls delays the reads that need it, and nothing that only the primary responses (architecture: Shared round trips of
//! ingest).

use super::{get, lead_route, new_lead, patch, patch_request, post_request, record, records_target};
use futures_util::future::join_all;
use serde_json::json;
use std::time::{Duration, Instant};
use tests::dedicated_servers::Postgres;
use tests::{HttpClient, HttpRequest, MAX_WAIT, World, event, eventually};
use uuid::Uuid;

/// `CONNECT_STORE_TIMEOUT`: long enough for the other requests to get their responses before those that wait.
const STORE_TIMEOUT: Duration = Duration::from_secs(8);
/// What the requests that wait may take beyond that on a busy machine.
const GRACE: Duration = Duration::from_secs(8);
/// Reads that wait for the replica: more than there are connections to it.
const WAITING: usize = 20;

/// A world whose ingest reads through a proxy, and whose programs reach the same server as their primary directly.
async fn with_replica() -> World {
    let timeout = format!("{}s", STORE_TIMEOUT.as_secs());
    let world = World::with().through_proxies().ingests(0).workers(0).set("CONNECT_STORE_TIMEOUT", &timeout);
    let mut world = world.start().await;
    let proxied =
        world.settings().iter().find(|(name, _)| name == "DATABASE_URL").expect("a setting").1.clone();
    let direct = world.database.url().to_owned();
    world.set("DATABASE_URL", &direct);
    world.set("DATABASE_READ_URL", &proxied);
    world.add_ingest().await;
    world.add_worker().await;
    world
}

/// A read whose signature is no other's, also within a second.
fn read(world: &World, route: &str) -> HttpRequest {
    world.key.records("GET", &records_target(&format!("{route}?nonce={}", Uuid::now_v7())), "")
}

#[tokio::test]
async fn a_replica_that_stalls_delays_only_reads_of_records() {
    let world = with_replica().await;
    let lead = new_lead(&world, json!({})).await;
    let route = lead_route(&lead);
    let used = read(&world, &route);
    assert_eq!(record(&world.http().send(&used).await, 200), lead);
    world.proxies().postgres.stall();
    let requests: Vec<HttpRequest> = (0..WAITING).map(|_| read(&world, &route)).collect();
    let waiting: Vec<_> = requests
        .iter()
        .map(|request| {
            let (http, request) = (HttpClient::new(world.http().address()), request.clone());
            tokio::spawn(async move {
                let begun = Instant::now();
                (http.send(&request).await, begun.elapsed())
            })
        })
        .collect();
    for _ in 0..3 {
        world.http().send(&used).await.assert_error(401, "unauthorized");
        world.accept(event("contact.identified").email("bo@example.com")).await;
        let key = Uuid::now_v7().to_string();
        let write =
            post_request(&world.key, "/clients", &key, &json!({"email": format!("{key}@example.com")}));
        record(&world.http().send(&write).await, 201);
        world.http().send(&read(&world, "/clients/none")).await.assert_error(404, "not_found");
        world.http().send(&read(&world, "/clients")).await.assert_error(400, "lookup_field_required");
    }
    assert!(!waiting.iter().any(tokio::task::JoinHandle::is_finished), "the others ended first");
    for ended in join_all(waiting).await {
        let (response, took) = ended.expect("the request ends");
        response.assert_error(503, "replay_store_unavailable");
        assert!(took < STORE_TIMEOUT + GRACE, "{took:?}");
    }
    for request in &requests[..3] {
        world.http().send(request).await.assert_error(401, "unauthorized");
    }
    world.proxies().postgres.restore();
    assert_eq!(record(&get(&world, &route).await, 200), lead);
}

/// The URL of the database of `world` on another server.
fn url_on(world: &World, server: &Postgres) -> String {
    let [(place, _), (_, database)] =
        [server.url(), world.database.url()].map(|url| url.rsplit_once('/').expect("a database"));
    format!("{place}/{database}")
}

#[tokio::test]
async fn a_read_on_a_lagging_replica_may_be_old_and_cannot_cause_a_lost_update() {
    let primary = Postgres::start().await;
    let standby = primary.start_standby().await;
    let mut world = World::with().on_postgres(primary.url()).ingests(0).start().await;
    world.set("DATABASE_READ_URL", &url_on(&world, &standby));
    world.add_ingest().await;
    let lead = new_lead(&world, json!({"title": "Before"})).await;
    let route = lead_route(&lead);
    let until_read = async |title: &str| {
        eventually("the replica has the record", MAX_WAIT, async || {
            let response = get(&world, &route).await;
            match response.status {
                200 if response.json()["data"]["title"] == *title => Ok(()),
                _ => Err(format!("{response:?}")),
            }
        })
        .await;
    };
    until_read("Before").await;
    standby.execute("SELECT pg_wal_replay_pause()").await;
    let changed = record(&patch(&world, &route, json!({"title": "After"})).await, 200);
    assert_eq!(changed["title"], "After", "the response to a write is never old");
    let read = get(&world, &route).await;
    assert_eq!(record(&read, 200)["title"], "Before");
    let based_on_it = patch_request(&world.key, &route, &json!({"title": "Lost"}));
    let refused = world.http().send(&based_on_it.with("if-match", read.header("etag"))).await;
    assert_eq!((refused.status, &refused.json()["updatedAt"]), (412, &changed["updatedAt"]));
    standby.execute("SELECT pg_wal_replay_resume()").await;
    until_read("After").await;
}
