//! Reads from a replica (operators: Reads from a replica): how old they may be, and what happens when the replica lags too far behind,
//! does not respond, or does not follow the primary any more.

use super::{get, lead_route, new_lead, patch, patch_request, post_request, reads_on, record, records_target, spawn};
use futures_util::future::join_all;
use serde_json::json;
use std::time::{Duration, Instant};
use tests::dedicated_servers::Postgres;
use tests::{HttpRequest, HttpResponse, MAX_WAIT, UNREACHED_RECEIVER, World, event, eventually, until};
use uuid::Uuid;

/// `CONNECT_STORE_TIMEOUT`: of its half, which the replica may take, enough is left for the other requests to get their responses
/// before those that wait.
const STORE_TIMEOUT: Duration = Duration::from_secs(20);
/// Reads that wait for the replica: more than there are connections to it.
const WAITING: usize = 20;
/// A limit on the lag that no test reaches.
const NO_LIMIT: &str = "1h";
/// The limit of the tests in which the replica lags behind.
const MAX_LAG: Duration = Duration::from_secs(2);
/// What `connectctl doctor` finds beyond the limit.
const BEHIND: &str = "the server of DATABASE_READ_URL lags";
/// What ingest logs when it begins to use the replica.
const USED: &str = "records are read on the replica";

/// A world whose ingest reads through a proxy, and whose programs reach the same server as their primary directly.
pub(crate) async fn with_replica() -> World {
    let timeout = format!("{}s", STORE_TIMEOUT.as_secs());
    let world = World::with().through_proxies().ingests(0).workers(0).set("CONNECT_STORE_TIMEOUT", &timeout);
    let mut world = world.start().await;
    let proxied = world.settings().iter().find(|(name, _)| name == "DATABASE_URL").expect("a setting").1.clone();
    let direct = world.database.url().to_owned();
    world.set("DATABASE_URL", &direct);
    world.set("DATABASE_READ_URL", &proxied);
    world.set("CONNECT_READ_MAX_LAG", NO_LIMIT);
    world.add_ingest().await;
    world.add_worker().await;
    world.ingests[0].until_logged(USED).await;
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
    let waiting: Vec<_> = requests.iter().map(|request| spawn(&world, request.clone())).collect();
    for _ in 0..3 {
        world.http().send(&used).await.assert_error(401, "unauthorized");
        world.accept(event("contact.identified").email("bo@example.com")).await;
        let key = Uuid::now_v7().to_string();
        let write = post_request(&world.key, "/clients", &key, &json!({"email": format!("{key}@example.com")}));
        record(&world.http().send(&write).await, 201);
        world.http().send(&read(&world, "/clients/none")).await.assert_error(404, "not_found");
        world.http().send(&read(&world, "/clients")).await.assert_error(400, "lookup_field_required");
    }
    assert!(!waiting.iter().any(tokio::task::JoinHandle::is_finished), "the others ended first");
    // In the other half of their time they are read on the primary.
    for ended in join_all(waiting).await {
        assert_eq!(record(&ended.expect("the request ends"), 200), lead);
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

/// Waits until a read gives this title.
async fn until_read(world: &World, route: &str, title: &str) {
    eventually("a read gives the new title", MAX_WAIT, async || {
        let response = get(world, route).await;
        match response.status {
            200 if response.json()["data"]["title"] == *title => Ok(()),
            _ => Err(format!("{response:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn no_read_on_a_replica_is_older_than_the_limit_or_causes_a_lost_update() {
    let primary = Postgres::start().await;
    let standby = primary.start_standby().await;
    let mut world = World::with().on_postgres(primary.url()).ingests(0).start().await;
    world.set("DATABASE_READ_URL", &url_on(&world, &standby));
    world.set("CONNECT_READ_MAX_LAG", NO_LIMIT);
    world.add_ingest().await;
    world.ingests[0].until_logged(USED).await;
    world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--reads-per-second", "100000"]).await;
    let route = lead_route(&new_lead(&world, json!({"title": "Before"})).await);
    until_read(&world, &route, "Before").await;
    the_feed_is_read_on_the_replica(&world).await;
    a_read_on_a_lagging_replica_may_be_old_and_causes_no_lost_update(&world, &standby, &route).await;

    world.restart_ingest_with("CONNECT_READ_MAX_LAG", "2s").await;
    world.ingests[0].until_logged(USED).await;
    a_replica_that_lags_too_far_behind_is_not_read_until_it_has_caught_up(&world, &standby, &route).await;

    // Nor is one that does not follow the primary any more.
    standby.execute("SELECT pg_promote()").await;
    let changed = patch(&world, &route, json!({"title": "At last"})).await;
    assert_reads_are_bounded(&world, &route, "At last", Instant::now()).await;
    assert_eq!(changed.status, 200);
}

/// Also a part with a new delivery, which the primary would make durable first.
async fn the_feed_is_read_on_the_replica(world: &World) {
    let create =
        ["subscription", "create", "--tenant", "acme", "--url", UNREACHED_RECEIVER, "--key", &world.key.prefix];
    world.connectctl.json(&create).await;
    let insert = "INSERT INTO deliveries (tenant_id, subscription_id, delivery_id, event_id, number, created_at, state)
        SELECT tenant_id, subscription_id, gen_random_uuid(), gen_random_uuid(), 7, now(), 'dropped' FROM subscriptions";
    world.database.execute(insert).await;
    let feed = async || get(world, "/webhooks").await;
    let is_shown = |page: &HttpResponse| page.status == 200 && page.json()["data"][0]["number"] == 7;
    until("the replica has the delivery", feed, is_shown).await;
    assert!(reads_on(world, "primary").await < 0.5, "no read was on the primary");
}

async fn a_read_on_a_lagging_replica_may_be_old_and_causes_no_lost_update(
    world: &World, standby: &Postgres, route: &str,
) {
    standby.execute("SELECT pg_wal_replay_pause()").await;
    let changed = record(&patch(world, route, json!({"title": "After"})).await, 200);
    assert_eq!(changed["title"], "After", "the response to a write is never old");
    let read = get(world, route).await;
    assert_eq!(record(&read, 200)["title"], "Before");
    let based_on_it = patch_request(&world.key, route, &json!({"title": "Lost"}));
    let refused = world.http().send(&based_on_it.with("if-match", read.header("etag"))).await;
    assert_eq!((refused.status, &refused.json()["updatedAt"]), (412, &changed["updatedAt"]));
    standby.execute("SELECT pg_wal_replay_resume()").await;
    until_read(world, route, "After").await;
}

/// Reads until so long after `written` as the replica may lag behind. No read that begins later may be older than the write.
async fn assert_reads_are_bounded(world: &World, route: &str, title: &str, written: Instant) {
    let mut old = 0;
    loop {
        let is_bounded = written.elapsed() > MAX_LAG;
        let read = record(&world.http().send(&read(world, route)).await, 200);
        if read["title"] == *title {
            assert!(old > 0, "the replica was read");
            return;
        }
        assert!(!is_bounded, "an old read after {:?}", written.elapsed());
        old += 1;
    }
}

async fn a_replica_that_lags_too_far_behind_is_not_read_until_it_has_caught_up(
    world: &World, standby: &Postgres, route: &str,
) {
    standby.execute("SELECT pg_wal_replay_pause()").await;
    let changed = patch(world, route, json!({"title": "Later"})).await;
    assert_reads_are_bounded(world, route, "Later", Instant::now()).await;
    assert_eq!(changed.status, 200);
    world.ingests[0].until_logged("the replica cannot be used; records are read on the primary").await;
    let lag = world.ingests[0].metrics().await.sum("connect_read_replica_lag_seconds", &[]);
    assert!(lag > MAX_LAG.as_secs_f64(), "{lag}");
    let doctor = world.connectctl.clone().and("DATABASE_READ_URL", &url_on(world, standby));
    let doctor = doctor.and("CONNECT_READ_MAX_LAG", "2s");
    let found = doctor.run(&["doctor", "--json"]).await;
    assert!(found.output.contains(BEHIND), "{found:?}");
    let before = reads_on(world, "replica").await;
    assert_eq!(record(&get(world, route).await, 200)["title"], "Later");
    assert!((reads_on(world, "replica").await - before).abs() < 0.5, "the read was on the primary");

    standby.execute("SELECT pg_wal_replay_resume()").await;
    eventually("the replica is read again", MAX_WAIT, async || {
        let before = reads_on(world, "replica").await;
        assert_eq!(record(&get(world, route).await, 200)["title"], "Later");
        if reads_on(world, "replica").await > before { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    let found = doctor.run(&["doctor", "--json"]).await;
    assert!(!found.output.contains(BEHIND), "{found:?}");
}
