//! Signatures are used up in flights that requests share, and a read's record comes in the flight of its signature
//! (D1, D2, D3; architecture: Flights of ingest).

use crate::records::{at, client_route, get, lead_route, new_lead, record, trip_route};
use futures_util::StreamExt;
use futures_util::future::{AbortHandle, Abortable, join_all};
use futures_util::stream::FuturesUnordered;
use serde_json::json;
use tests::event::batch;
use tests::{Answer, ApiKey, Flight, Http, Outgoing, PATIENCE, StatementRecorder, World, WorldBuilder};
use tests::{event, eventually, text};

const REMEMBER: &str = "replay_entries.remember";

/// A world whose agency has so many places, with an ingest behind a recorder.
async fn recorded(
    places: usize,
    settings: impl Fn(WorldBuilder) -> WorldBuilder,
) -> (World, StatementRecorder) {
    let places = places.to_string();
    let world = World::with().ingests(0).set("CONNECT_BACKLOG_TARGET", "60s");
    let world = settings(world.set("CONNECT_MAX_IN_FLIGHT_PER_TENANT", &places));
    let mut world = world.start().await;
    let recorder = StatementRecorder::before(world.database.url());
    world.set("DATABASE_URL", recorder.url());
    world.add_ingest().await;
    (world, recorder)
}

/// Sends requests, one more than there are places, while no entry can be written. Once all but one wait, of which the
/// odd one out is refused, has `then` done and lets entries be written. Gives the answers in their order.
async fn send_together(
    world: &World,
    requests: &[Outgoing],
    then: impl AsyncFnOnce(),
) -> Vec<Option<Answer>> {
    let blocker = world.database.connect().await;
    let lock = "BEGIN; LOCK TABLE replay_entries IN ACCESS EXCLUSIVE MODE";
    blocker.batch_execute(lock).await.expect("the table can be locked");
    let http = Http::new(world.http().address());
    let send = async |place: usize| (place, http.send(&requests[place]).await);
    let mut waiting: FuturesUnordered<_> = (0..requests.len()).map(send).collect();
    let (odd, refused) = waiting.next().await.expect("a request is refused");
    refused.assert_error(503, "overloaded");
    then().await;
    blocker.batch_execute("ROLLBACK").await.expect("the lock goes");
    let mut answers = vec![None; requests.len()];
    while let Some((place, answer)) = waiting.next().await {
        assert_ne!(place, odd);
        answers[place] = Some(answer);
    }
    answers
}

fn identified(key: &ApiKey, email: &str) -> Outgoing {
    key.events(batch(&[event("contact.identified").email(email)]))
}

fn read(key: &ApiKey, route: &str, n: usize) -> Outgoing {
    key.records("GET", &at(&format!("{route}?n={n}")), "")
}

/// The statements of the flights that a pool sent, without what was only prepared and what comes at any time.
fn statements(recorder: &StatementRecorder, pool: &str) -> Vec<Vec<String>> {
    let is_of_a_request = |statement: &String| {
        [REMEMBER, "clients.", "leads.", "trips."].iter().any(|name| statement.starts_with(name))
    };
    let of = |flight: Flight| flight.statements.into_iter().filter(is_of_a_request).collect::<Vec<_>>();
    recorder.take(pool).into_iter().map(of).filter(|flight| !flight.is_empty()).collect()
}

#[tokio::test]
async fn requests_at_once_share_flights_and_each_keeps_its_own_result() {
    let (world, recorder) = recorded(40, |world| world).await;
    world.accept(event("contact.identified").email("first@example.com")).await;
    statements(&recorder, "ingest_replay");
    let same = identified(&world.key, "same@example.com");
    let mut requests: Vec<_> = (0..30).map(|i| identified(&world.key, &format!("{i}@example.com"))).collect();
    requests.extend((0..5).map(|i| world.key.events(format!("{{\"events\":[{i}]}}"))));
    requests.extend(vec![same; 6]);
    let answers = send_together(&world, &requests, async || ()).await;
    for (place, answer) in answers.iter().enumerate().take(35) {
        let expected = if place < 30 { 200 } else { 400 };
        assert!(answer.as_ref().is_none_or(|answer| answer.status == expected), "{place}: {answer:?}");
    }
    let same: Vec<u16> = answers[35..].iter().flatten().map(|answer| answer.status).collect();
    assert_eq!(same.iter().filter(|status| **status == 200).count(), 1, "{same:?}");
    assert_eq!(same.iter().filter(|status| **status == 401).count(), same.len() - 1, "{same:?}");
    let flights = statements(&recorder, "ingest_replay");
    // Two lanes wait for the lock with what came first; the rest is one or two groups.
    assert!(flights.len() <= 6, "{flights:?}");
    assert!(flights.iter().all(|flight| *flight == [REMEMBER]), "{flights:?}");
}

#[tokio::test]
async fn reads_at_once_share_flights_and_each_is_shown_its_own_record() {
    let (world, recorder) = recorded(30, |world| world.set("CONNECT_READ_CONNECTIONS", "1")).await;
    let lead = new_lead(&world, json!({"title": "Goa"})).await;
    let client = client_route(&json!({"id": lead["clientId"]}));
    let mut shown = Vec::new();
    for route in [client, lead_route(&lead), trip_route(&lead)] {
        shown.push((route.clone(), record(&get(&world, &route).await, 200)));
    }
    statements(&recorder, "ingest_reads");
    statements(&recorder, "ingest_replay");
    let requests: Vec<_> = (0..31).map(|i| read(&world.key, &shown[i % 3].0, i)).collect();
    let answers = send_together(&world, &requests, async || ()).await;
    for (place, answer) in answers.iter().enumerate() {
        if let Some(answer) = answer {
            assert_eq!(record(answer, 200), shown[place % 3].1);
        }
    }
    let flights = statements(&recorder, "ingest_reads");
    assert!(flights.len() <= 4, "{flights:?}");
    assert!(flights.iter().all(|flight| flight[0] == REMEMBER), "{flights:?}");
    assert!(statements(&recorder, "ingest_replay").is_empty(), "reads bring their entries themselves");
}

#[tokio::test]
async fn a_read_is_one_flight_that_has_its_signature_and_its_record() {
    let (world, recorder) = recorded(100, |world| world).await;
    let lead = new_lead(&world, json!({"externalId": "x-1"})).await;
    let client = client_route(&json!({"id": lead["clientId"]}));
    for (route, statement) in [
        (client, "clients.by_ids"),
        (lead_route(&lead), "leads.by_ids"),
        (trip_route(&lead), "trips.of_leads"),
        ("/clients?email=ana@example.com".to_owned(), "clients.by_email"),
        ("/leads?externalId=x-1".to_owned(), "leads.by_external_id"),
    ] {
        // Repeated until a connection is used that has prepared the statements.
        eventually(&format!("{statement} is in one flight"), PATIENCE, async || {
            recorder.take("ingest_reads");
            assert_eq!(get(&world, &route).await.status, 200, "{route}");
            let flights: Vec<_> = recorder.take("ingest_reads").into_iter().map(|f| f.statements).collect();
            if flights == [[REMEMBER, statement]] { Ok(()) } else { Err(format!("{flights:?}")) }
        })
        .await;
    }
}

#[tokio::test]
async fn with_a_replica_signatures_are_used_up_on_the_primary_and_records_read_from_the_replica() {
    let (mut world, primary) = recorded(100, |world| world).await;
    let replica = StatementRecorder::before(world.database.url());
    world.set("DATABASE_READ_URL", replica.url());
    world.restart_ingest().await;
    let lead = new_lead(&world, json!({})).await;
    statements(&primary, "ingest_replay");
    let request = read(&world.key, &lead_route(&lead), 1);
    assert_eq!(record(&world.http().send(&request).await, 200), lead);
    assert_eq!(statements(&primary, "ingest_replay"), [[REMEMBER]]);
    assert_eq!(statements(&replica, "ingest_reads"), [["leads.by_ids"]]);
    assert!(statements(&primary, "ingest_reads").is_empty());
    world.http().send(&request).await.assert_error(401, "unauthorized");
}

#[tokio::test]
async fn a_signature_that_cannot_be_written_fails_no_other_of_its_flight() {
    let (world, _recorder) = recorded(20, |world| world).await;
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
    let answers = send_together(&world, &requests, async || ()).await;
    for (i, answer) in answers.iter().enumerate() {
        match answer {
            Some(answer) if i.is_multiple_of(4) => drop(answer.assert_error(503, "replay_store_unavailable")),
            Some(answer) => assert_eq!(answer.status, 200, "{i}: {answer:?}"),
            None => {}
        }
    }
    assert_eq!(world.http().send(&identified(&world.key, "after@example.com")).await.status, 200);
}

#[tokio::test]
async fn callers_that_hang_up_cancel_nobody_else_in_their_flight() {
    let (world, _recorder) = recorded(20, |world| world).await;
    let lead = new_lead(&world, json!({})).await;
    let blocker = world.database.connect().await;
    let lock = "BEGIN; LOCK TABLE replay_entries IN ACCESS EXCLUSIVE MODE";
    blocker.batch_execute(lock).await.expect("the table can be locked");
    let mut hang_ups = Vec::new();
    let mut waiting: FuturesUnordered<_> = (0..21)
        .map(|i| {
            let (hang_up, registration) = AbortHandle::new_pair();
            hang_ups.push(hang_up);
            let request = if i % 2 == 0 {
                read(&world.key, &lead_route(&lead), i)
            } else {
                identified(&world.key, &format!("{i}@example.com"))
            };
            let http = Http::new(world.http().address());
            Abortable::new(async move { (i, http.send(&request).await) }, registration)
        })
        .collect();
    let (_, refused) = waiting.next().await.expect("a request is refused").expect("nobody has hung up");
    refused.assert_error(503, "overloaded");
    hang_ups.iter().take(10).for_each(AbortHandle::abort);
    blocker.batch_execute("ROLLBACK").await.expect("the lock goes");
    let mut passed = 0;
    while let Some(answer) = waiting.next().await {
        if let Ok((i, answer)) = answer {
            assert_eq!(answer.status, 200, "{i}: {answer:?}");
            passed += 1;
        }
    }
    assert!(passed >= 10, "{passed}");
}

#[tokio::test]
async fn an_outage_during_a_flight_is_told_to_each_of_its_requests_and_none_is_taken_twice() {
    let world = World::with().through_proxies().set("CONNECT_STORE_TIMEOUT", "1s").start().await;
    let lead = new_lead(&world, json!({})).await;
    let mut requests: Vec<_> = (0..10).map(|i| identified(&world.key, &format!("{i}@example.com"))).collect();
    requests.extend((0..10).map(|i| read(&world.key, &lead_route(&lead), i)));
    let send = async || join_all(requests.iter().map(|request| world.http().send(request))).await;
    let before = world.database.count("SELECT count(*) FROM timeline").await;
    world.proxies().postgres.stall_replies();
    for answer in send().await {
        answer.assert_error(503, "replay_store_unavailable");
    }
    world.proxies().postgres.restore();
    world.ingests[0].until_ready().await;
    let again = send().await;
    let taken = again.iter().take(10).filter(|answer| answer.status == 200).count();
    for answer in again.iter().filter(|answer| answer.status != 200) {
        answer.assert_error(401, "unauthorized");
    }
    let applied = world.database.count("SELECT count(*) FROM timeline").await - before;
    assert_eq!(applied, i64::try_from(taken).expect("few"), "what was answered 503 was not ingested");
    for answer in send().await {
        answer.assert_error(401, "unauthorized");
    }
}

#[tokio::test]
async fn a_replay_that_is_repeated_is_refused_without_asking_the_database_again() {
    let (world, recorder) = recorded(100, |world| world).await;
    let client =
        record(&crate::records::post(&world, "/clients", json!({"email": "ana@example.com"})).await, 201);
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
