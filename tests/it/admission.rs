//! Requests share the round trips that store their signatures, and a read loads its record in the round trip of its
//! signature (D1, D2, D3; architecture: Shared round trips of ingest).

use crate::records::{client_route, get, lead_route, new_lead, record, records_target, trip_route};
use futures_util::future::{AbortHandle, Abortable, join_all};
use serde_json::json;
use tests::{ApiKey, HttpClient, HttpRequest, HttpResponse, StatementRecorder, World, batch, event, text};

const INSERT_ENTRIES: &str = "replay_entries.insert";

/// A world with an ingest behind a recorder.
async fn world_with_recorder() -> (World, StatementRecorder) {
    let mut world = World::with().ingests(0).set("CONNECT_READ_CONNECTIONS", "1").start().await;
    let recorder = world.record_statements();
    world.add_ingest().await;
    (world, recorder)
}

/// Runs `requests` while no replay entry can be written. Once `count` of them wait, does `then`, and lets entries be written.
async fn send_while_blocked<T>(
    world: &World, count: usize, requests: impl Future<Output = T>, then: impl FnOnce(),
) -> T {
    let blocker = world.database.begin("LOCK TABLE replay_entries IN ACCESS EXCLUSIVE MODE").await;
    let releasing = async {
        let active = [("state", "active")];
        world.ingests[0].until_sum("connect_http_connections", &active, count as f64).await;
        then();
        blocker.batch_execute("ROLLBACK").await.expect("the lock is released");
    };
    futures_util::join!(requests, releasing).0
}

/// Sends requests at once, and returns their responses in the same order.
async fn send_concurrently(world: &World, requests: &[HttpRequest]) -> Vec<HttpResponse> {
    let http = HttpClient::new(world.http().address());
    let sent = join_all(requests.iter().map(|request| http.send(request)));
    send_while_blocked(world, requests.len(), sent, || ()).await
}

fn identified(key: &ApiKey, email: &str) -> HttpRequest {
    key.events(batch(&[event("contact.identified").email(email)]))
}

fn read(key: &ApiKey, route: &str, n: usize) -> HttpRequest {
    key.records("GET", &records_target(&format!("{route}?n={n}")), "")
}

/// What ingest sends for a read.
fn read_with(statement: &str) -> Vec<String> {
    [INSERT_ENTRIES, statement].map(str::to_owned).to_vec()
}

/// The statements of the round trips that a pool sent, without prepared ones and those of background tasks.
fn statements(recorder: &StatementRecorder, pool: &str) -> Vec<Vec<String>> {
    let is_of_a_request = |statement: &String| {
        [INSERT_ENTRIES, "clients.", "leads.", "trips."].iter().any(|name| statement.starts_with(name))
    };
    let of = |round_trip: Vec<String>| round_trip.into_iter().filter(is_of_a_request).collect::<Vec<_>>();
    recorder.take(pool).into_iter().map(of).filter(|round_trip| !round_trip.is_empty()).collect()
}

#[tokio::test]
async fn concurrent_requests_share_round_trips_and_keep_their_own_results() {
    let (world, recorder) = world_with_recorder().await;
    world.accept(event("contact.identified").email("first@example.com")).await;
    statements(&recorder, "ingest_replay");
    let same = identified(&world.key, "same@example.com");
    let mut requests: Vec<_> = (0..30).map(|i| identified(&world.key, &format!("{i}@example.com"))).collect();
    requests.extend((0..5).map(|i| world.key.events(format!("{{\"events\":[{i}]}}"))));
    requests.extend(vec![same; 6]);
    let responses = send_concurrently(&world, &requests).await;
    for (index, response) in responses.iter().enumerate().take(35) {
        let expected = if index < 30 { 200 } else { 400 };
        assert_eq!(response.status, expected, "{index}: {response:?}");
    }
    let same: Vec<u16> = responses[35..].iter().map(|response| response.status).collect();
    assert_eq!(same.iter().filter(|status| **status == 200).count(), 1, "{same:?}");
    assert_eq!(same.iter().filter(|status| **status == 401).count(), same.len() - 1, "{same:?}");
    let round_trips = statements(&recorder, "ingest_replay");
    // The first requests wait for the lock on two lanes; the others form one or two groups.
    assert!(round_trips.len() <= 6, "{round_trips:?}");
    assert!(round_trips.iter().all(|round_trip| *round_trip == [INSERT_ENTRIES]), "{round_trips:?}");
}

#[tokio::test]
async fn concurrent_reads_share_round_trips_and_return_their_own_records() {
    let (world, recorder) = world_with_recorder().await;
    let lead = new_lead(&world, json!({"title": "Goa"})).await;
    let client = client_route(&json!({"id": lead["clientId"]}));
    let mut shown = Vec::new();
    for route in [client, lead_route(&lead), trip_route(&lead)] {
        shown.push((route.clone(), record(&get(&world, &route).await, 200)));
    }
    statements(&recorder, "ingest_reads");
    statements(&recorder, "ingest_replay");
    recorder.expect(&["clients.by_ids", "leads.by_ids", "trips.of_leads"].map(read_with));
    let requests: Vec<_> = (0..31).map(|i| read(&world.key, &shown[i % 3].0, i)).collect();
    let responses = send_concurrently(&world, &requests).await;
    for (index, response) in responses.iter().enumerate() {
        assert_eq!(record(response, 200), shown[index % 3].1);
    }
    let round_trips = statements(&recorder, "ingest_reads");
    // Each of the three kinds of records has round trips of its own: one that waits for the lock, and one or two groups.
    assert!(round_trips.len() <= 9, "{round_trips:?}");
    assert!(round_trips.iter().all(|round_trip| round_trip[0] == INSERT_ENTRIES), "{round_trips:?}");
    assert!(statements(&recorder, "ingest_replay").is_empty(), "reads store their own entries");
}

#[tokio::test]
async fn a_read_checks_its_signature_and_loads_its_record_in_one_round_trip() {
    let (world, recorder) = world_with_recorder().await;
    let lead = new_lead(&world, json!({"externalId": "x-1"})).await;
    let client = client_route(&json!({"id": lead["clientId"]}));
    for (route, statement) in [
        (client, "clients.by_ids"),
        (lead_route(&lead), "leads.by_ids"),
        (trip_route(&lead), "trips.of_leads"),
        ("/clients?email=ana@example.com".to_owned(), "clients.by_email"),
        ("/leads?externalId=x-1".to_owned(), "leads.by_external_id"),
    ] {
        // The first read prepares its statement.
        assert_eq!(get(&world, &route).await.status, 200, "{route}");
        let expected = [read_with(statement)];
        recorder.expect(&expected);
        statements(&recorder, "ingest_reads");
        assert_eq!(get(&world, &route).await.status, 200, "{route}");
        assert_eq!(statements(&recorder, "ingest_reads"), expected);
    }
}

#[tokio::test]
async fn a_replica_serves_records_while_the_primary_stores_signatures() {
    let (mut world, primary) = world_with_recorder().await;
    let replica = StatementRecorder::in_front_of(world.database.url());
    world.restart_ingest_with("DATABASE_READ_URL", replica.url()).await;
    world.ingests[0].until_logged("records are read on the replica").await;
    let lead = new_lead(&world, json!({})).await;
    statements(&primary, "ingest_replay");
    let request = read(&world.key, &lead_route(&lead), 1);
    assert_eq!(record(&world.http().send(&request).await, 200), lead);
    assert_eq!(statements(&primary, "ingest_replay"), [[INSERT_ENTRIES]]);
    assert_eq!(statements(&replica, "ingest_replica_reads"), [["leads.by_ids"]]);
    assert!(statements(&primary, "ingest_reads").is_empty());
    world.http().send(&request).await.assert_error(401, "unauthorized");
}

#[tokio::test]
async fn a_signature_that_cannot_be_stored_fails_only_its_own_request() {
    let (world, _recorder) = world_with_recorder().await;
    let unlucky = world.add_key("events:ingest").await;
    let trigger = format!(
        "CREATE FUNCTION refuse_unlucky() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN RAISE EXCEPTION 'unlucky'; END $$;
         CREATE TRIGGER unlucky BEFORE INSERT ON replay_entries FOR EACH ROW
         WHEN (NEW.key_prefix = '{}') EXECUTE FUNCTION refuse_unlucky();",
        unlucky.prefix
    );
    world.database.execute(&trigger).await;
    let of = |i: usize| if i.is_multiple_of(4) { &unlucky } else { &world.key };
    let requests: Vec<_> = (0..21).map(|i| identified(of(i), &format!("{i}@example.com"))).collect();
    let responses = send_concurrently(&world, &requests).await;
    for (i, response) in responses.iter().enumerate() {
        if i.is_multiple_of(4) {
            response.assert_error(503, "replay_store_unavailable");
        } else {
            assert_eq!(response.status, 200, "{i}: {response:?}");
        }
    }
    assert_eq!(world.http().send(&identified(&world.key, "after@example.com")).await.status, 200);
}

#[tokio::test]
async fn callers_that_disconnect_cancel_no_other_request_of_their_round_trip() {
    let (world, _recorder) = world_with_recorder().await;
    let lead = new_lead(&world, json!({})).await;
    let mut hang_ups = Vec::new();
    let waiting: Vec<_> = (0..20)
        .map(|i| {
            let (hang_up, registration) = AbortHandle::new_pair();
            hang_ups.push(hang_up);
            let request = if i % 2 == 0 {
                read(&world.key, &lead_route(&lead), i)
            } else {
                identified(&world.key, &format!("{i}@example.com"))
            };
            let http = HttpClient::new(world.http().address());
            Abortable::new(async move { http.send(&request).await }, registration)
        })
        .collect();
    let hang_up = || hang_ups.iter().take(10).for_each(AbortHandle::abort);
    let responses = send_while_blocked(&world, waiting.len(), join_all(waiting), hang_up).await;
    for (i, response) in responses.iter().enumerate() {
        assert_eq!(response.as_ref().is_ok_and(|response| response.status == 200), i >= 10, "{i}: {response:?}");
    }
}

#[tokio::test]
async fn an_outage_during_a_round_trip_fails_each_request_with_503_and_applies_none_twice() {
    let world = World::with().through_proxies().set("CONNECT_STORE_TIMEOUT", "1s").start().await;
    let lead = new_lead(&world, json!({})).await;
    let mut requests: Vec<_> = (0..10).map(|i| identified(&world.key, &format!("{i}@example.com"))).collect();
    requests.extend((0..10).map(|i| read(&world.key, &lead_route(&lead), i)));
    let send = async || join_all(requests.iter().map(|request| world.http().send(request))).await;
    let before = world.database.count("SELECT count(*) FROM timeline").await;
    world.proxies().postgres.stall_replies();
    for response in send().await {
        response.assert_error(503, "replay_store_unavailable");
    }
    world.proxies().postgres.restore();
    world.ingests[0].until_ready().await;
    let again = send().await;
    let ingested = again.iter().take(10).filter(|response| response.status == 200).count();
    for response in again.iter().filter(|response| response.status != 200) {
        response.assert_error(401, "unauthorized");
    }
    let applied = world.database.count("SELECT count(*) FROM timeline").await - before;
    assert_eq!(applied, i64::try_from(ingested).expect("few"), "requests that got 503 were not ingested");
    for response in send().await {
        response.assert_error(401, "unauthorized");
    }
}

#[tokio::test]
async fn rejects_a_repeated_replay_without_querying_the_database() {
    let (world, recorder) = world_with_recorder().await;
    let client = record(&crate::records::post(&world, "/clients", json!({"email": "ana@example.com"})).await, 201);
    for request in [identified(&world.key, "ana@example.com"), read(&world.key, &client_route(&client), 1)] {
        assert_eq!(world.http().send(&request).await.status, 200);
        world.http().send(&request).await.assert_error(401, "unauthorized");
        recorder.take("ingest_replay");
        recorder.take("ingest_reads");
        for _ in 0..5 {
            world.http().send(&request).await.assert_error(401, "unauthorized");
        }
        assert!(statements(&recorder, "ingest_replay").is_empty());
        assert!(statements(&recorder, "ingest_reads").is_empty());
    }
    assert_eq!(text(&client["email"]), "ana@example.com");
}
