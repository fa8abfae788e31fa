//! Internal errors: 500 without internal details, and nothing is stored (D4, D21b). A table that somebody locks, such
//! as a migration, delays the reads of that table and nothing else (architecture: Shared round trips of ingest).

use super::{
    break_inserts, client_route, every_read, every_write, get, lead_route, new_lead, records_target, restore_inserts,
    spawn, trip_route, writes_used,
};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::time::Duration;
use tests::{HttpRequest, World, event};
use tokio::task::JoinHandle;
use uuid::Uuid;

#[tokio::test]
async fn a_write_with_an_internal_error_gets_500_and_leaves_nothing() {
    let world = World::start().await;
    let lead = new_lead(&world, json!({})).await;
    let writes = every_write(&lead);
    break_inserts(&world, "event_ledger").await;
    for route in &writes {
        let code = if route.path == "/leads" { "lead_create_failed" } else { "internal_error" };
        let message = world.http().send(&route.signed(&world.key)).await.assert_error(500, code);
        assert!(!message.contains("refused"), "nothing of the inside: {message}");
    }
    for (what, count) in [("clients", 1), ("leads", 1), ("trips", 1), ("inbox_messages", 0), ("idempotency_keys", 1)] {
        assert_eq!(world.database.count(&format!("SELECT count(*) FROM {what}")).await, count, "{what}");
    }
    assert_eq!(writes_used(&world).await, 1);
    restore_inserts(&world).await;
    for route in &writes {
        let response = world.http().send(&route.signed(&world.key)).await;
        assert_eq!(response.status, route.success(), "{route:?}: {response:?}");
    }
    assert_eq!(writes_used(&world).await, 6);
}

#[tokio::test]
async fn a_corrupt_record_gets_500_and_does_not_affect_others() {
    let world = World::shared().await;
    let (broken, whole) = (new_lead(&world, json!({})).await, new_lead(&world, json!({})).await);
    let id = tests::text(&broken["id"]);
    world.database.execute(&format!("UPDATE trips SET brief = '[1]' WHERE lead_id = '{id}'")).await;
    for route in every_read(&broken).iter().filter(|route| route.path.starts_with("/leads/")) {
        let message = world.http().send(&route.signed(&world.key)).await.assert_error(500, "internal_error");
        assert_eq!(message, "Internal error", "{route:?}");
    }
    for route in every_read(&whole) {
        assert_eq!(world.http().send(&route.signed(&world.key)).await.status, 200, "{route:?}");
    }
    // It does not affect the worker either.
    for route in every_write(&broken) {
        let response = world.http().send(&route.signed(&world.key)).await;
        let expected = if route.path.starts_with("/leads/") { 500 } else { route.success() };
        assert_eq!(response.status, expected, "{route:?}: {response:?}");
    }
    for route in every_write(&whole) {
        assert_eq!(world.http().send(&route.signed(&world.key)).await.status, route.success(), "{route:?}");
    }
}

/// `CONNECT_STORE_TIMEOUT`: long enough for the other requests to get their responses before those that wait.
const STORE_TIMEOUT: Duration = Duration::from_secs(6);
/// Requests for each route that waits: together more than there are connections for reads.
const EACH: usize = 8;

async fn start(store_timeout: Duration) -> (World, Value) {
    let timeout = format!("{}s", store_timeout.as_secs());
    let world = World::with().set("CONNECT_STORE_TIMEOUT", &timeout).start().await;
    let lead = new_lead(&world, json!({"externalId": "x-1"})).await;
    (world, lead)
}

struct Routes {
    of_clients: Vec<String>,
    of_leads: Vec<String>,
    of_trips: Vec<String>,
}

fn routes(lead: &Value) -> Routes {
    let client = client_route(&json!({"id": lead["clientId"]}));
    Routes {
        of_clients: vec![client, "/clients?email=ana@example.com".to_owned()],
        of_leads: vec![lead_route(lead), "/leads?externalId=x-1".to_owned()],
        of_trips: vec![trip_route(lead)],
    }
}

/// A read with a unique target, so that its signature is unique even within one second.
fn read(world: &World, route: &str) -> HttpRequest {
    let separator = if route.contains('?') { '&' } else { '?' };
    world.key.records("GET", &records_target(&format!("{route}{separator}nonce={}", Uuid::now_v7())), "")
}

/// Locks `table`, starts reads of the routes `waiting` until `connections` of them wait for the lock, and runs `others`.
/// Asserts that `others` ends first, that the waiting reads then get 503, and that they succeed after the lock is
/// released.
async fn while_locked(world: &World, table: &str, waiting: &[&str], connections: i64, others: impl AsyncFnOnce()) {
    let blocker = world.database.begin(&format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")).await;
    let requests = (0..EACH).flat_map(|_| waiting.iter().map(|route| read(world, route)));
    let under_way: Vec<_> = requests.map(|request| spawn(world, request)).collect();
    let waiters = "application_name = 'ingest_reads' AND wait_event_type = 'Lock'";
    world.database.until_sessions(waiters, connections).await;
    others().await;
    assert!(!under_way.iter().any(JoinHandle::is_finished), "the others ended first");
    for request in under_way {
        let response = request.await.expect("the request ends");
        response.assert_error(503, "replay_store_unavailable");
    }
    blocker.batch_execute("ROLLBACK").await.expect("the lock goes");
    for route in waiting {
        assert_eq!(get(world, route).await.status, 200, "{route}");
    }
}

async fn assert_succeed(world: &World, routes: &[String]) {
    for _ in 0..EACH {
        let send = async |route: &String| world.http().send(&read(world, route)).await;
        for response in join_all(routes.iter().map(send)).await {
            assert_eq!(response.status, 200, "{response:?}");
        }
    }
}

#[tokio::test]
async fn a_locked_table_delays_no_reads_of_others_and_no_events() {
    let (world, lead) = start(STORE_TIMEOUT).await;
    let Routes { of_clients, of_leads, of_trips } = routes(&lead);
    // With `trips` locked, reads of leads and trips wait: on new connections, and on those that were used.
    let waiting: Vec<&str> = of_leads.iter().chain(&of_trips).map(String::as_str).collect();
    for _ in 0..2 {
        while_locked(&world, "trips", &waiting, 6, async || {
            assert_succeed(&world, &of_clients).await;
            world.accept(event("contact.identified").email("bo@example.com")).await;
        })
        .await;
        assert_succeed(&world, &[of_clients.clone(), of_leads.clone(), of_trips.clone()].concat()).await;
    }
    let waiting: Vec<&str> = of_clients.iter().map(String::as_str).collect();
    while_locked(&world, "clients", &waiting, 5, async || {
        assert_succeed(&world, &[of_leads, of_trips].concat()).await;
    })
    .await;
}

#[tokio::test]
async fn a_read_that_waits_for_a_locked_table_has_used_up_its_signature() {
    let (world, lead) = start(Duration::from_secs(2)).await;
    let blocker = world.database.begin("LOCK TABLE trips IN ACCESS EXCLUSIVE MODE").await;
    let request = read(&world, &trip_route(&lead));
    world.http().send(&request).await.assert_error(503, "replay_store_unavailable");
    world.http().send(&request).await.assert_error(401, "unauthorized");
    blocker.batch_execute("ROLLBACK").await.expect("the lock goes");
    world.http().send(&request).await.assert_error(401, "unauthorized");
}

#[tokio::test]
async fn a_caller_that_hangs_up_leaves_no_connection_to_others_on_which_its_look_up_still_waits() {
    // One connection for each kind of record, and one more.
    let builder = World::with().set("CONNECT_READ_CONNECTIONS", "5").set("CONNECT_STORE_TIMEOUT", "20s");
    let world = builder.start().await;
    let blocker = world.database.begin("LOCK TABLE clients IN ACCESS EXCLUSIVE MODE").await;
    let look_ups = (0..2).map(|_| spawn(&world, read(&world, "/clients?email=ana@example.com")));
    let under_way: Vec<_> = look_ups.collect();
    let waiters = "application_name = 'ingest_reads' AND wait_event_type = 'Lock'";
    world.database.until_sessions(waiters, 2).await;
    under_way.iter().for_each(JoinHandle::abort);
    world.ingests[0].until_sum("connect_http_connections", &[("state", "active")], 0.0).await;
    let of_leads = (0..8).map(async |_| world.http().send(&read(&world, "/leads?externalId=none")).await);
    for response in join_all(of_leads).await {
        assert_eq!(response.status, 200, "{response:?}");
    }
    world.database.until_sessions(waiters, 2).await;
    blocker.batch_execute("ROLLBACK").await.expect("the lock goes");
    assert_eq!(get(&world, "/clients?email=ana@example.com").await.status, 200);
}
