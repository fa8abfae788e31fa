//! The rate of reads, requests at once, and sizes (specification: Limits; D21a, D23).

use super::{
    at, data, every_read, every_route, every_write, get, new_client, new_lead, post_of, record, trip_route,
    used,
};
use futures_util::future::join_all;
use serde_json::json;
use tests::raw::{RawConnection, head};
use tests::{ALL_SCOPES, PATIENCE, World, eventually};

#[tokio::test]
async fn a_key_that_reads_too_often_is_told_so_and_only_that_key() {
    let world = World::start().await;
    world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--reads-per-second", "2"]).await;
    let other = world.add_key("clients:read").await;
    let answers = join_all((0..40).map(|_| get(&world, "/clients?phone=1"))).await;
    let passed = answers.iter().filter(|answer| answer.status == 200).count();
    assert!((2..40).contains(&passed), "{passed} of 40");
    for answer in answers.iter().filter(|answer| answer.status != 200) {
        answer.assert_error(429, "rate_limited");
        assert_eq!(answer.header("retry-after"), "1");
    }
    let lookup = super::at("/clients?phone=1");
    data(&world.http().send(&other.records("GET", &lookup, "")).await, 200);
    // Writes aren't reads, and the limit passes with time.
    new_client(&world, json!({"email": "bo@example.com"})).await;
    eventually("reads pass again", PATIENCE, async || match get(&world, "/clients?phone=1").await.status {
        200 => Ok(()),
        status => Err(status.to_string()),
    })
    .await;
}

#[tokio::test]
async fn every_read_counts_against_the_limit() {
    let world = World::start().await;
    let lead = new_lead(&world, json!({})).await;
    world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--reads-per-second", "1"]).await;
    for route in every_read(&lead) {
        let key = world.add_key(ALL_SCOPES).await;
        // Far more than there can be in the time that they take.
        let answers = join_all((0..30).map(async |_| world.http().send(&route.signed(&key)).await)).await;
        let refused: Vec<_> = answers.iter().filter(|answer| answer.status != 200).collect();
        assert!((1..30).contains(&refused.len()), "{route:?}: {} refused", refused.len());
        for answer in refused {
            answer.assert_error(429, "rate_limited");
            assert_eq!(answer.header("retry-after"), "1");
        }
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_too_large_for_every_write_and_one_of_just_the_limit_is_read() {
    let world = World::with().set("CONNECT_MAX_BODY", "2KiB").start().await;
    let lead = new_lead(&world, json!({})).await;
    for mut route in every_write(&lead) {
        route.body = format!("{}{}", route.body, " ".repeat(2_049 - route.body.len()));
        let large = route.signed(&world.key);
        world.http().send(&large).await.assert_error(413, "payload_too_large");
        // Without its length being told.
        let mut connection = RawConnection::to(world.http().address()).await;
        let chunked = format!("transfer-encoding: chunked\r\n\r\n801\r\n{}\r\n0\r\n\r\n", route.body);
        connection.send([head(&large).as_slice(), chunked.as_bytes()].concat()).await;
        let answer = connection.answer().await.expect("an answer");
        assert_eq!(answer.status, 413, "{route:?}");
        assert!(answer.body.contains("payload_too_large"), "{}", answer.body);

        route.body.pop();
        let answer = world.http().send(&route.signed(&world.key)).await;
        assert_eq!(answer.status, route.success(), "{route:?}: {answer:?}");
    }
    assert_eq!(used(&world).await, 6);
}

#[tokio::test]
async fn an_itinerary_of_256_kib_is_taken_and_one_byte_more_is_invalid() {
    let world = World::start().await;
    let lead = new_lead(&world, json!({})).await;
    let body = |bytes: usize| {
        let frame = r#"{"title":"x","days":[{"title":"1","items":[{"title":"x","text":""}]}]}"#;
        let text = "x".repeat(bytes - frame.len());
        let itinerary = frame.replace(r#""text":"""#, &format!(r#""text":"{text}""#));
        assert_eq!(itinerary.len(), bytes);
        format!(r#"{{"itinerary":{itinerary}}}"#)
    };
    let opening = |bytes: usize| {
        let with_client = format!(r#"{{"clientId":{},"#, lead["clientId"]);
        body(bytes).replacen('{', &with_client, 1)
    };
    for (bytes, fits) in [(256 * 1024, true), (256 * 1024 + 1, false)] {
        let create = world.key.records("POST", &at("/leads"), opening(bytes));
        let change = world.key.records("PATCH", &at(&trip_route(&lead)), body(bytes));
        for (request, success) in [(create.with("idempotency-key", format!("{bytes}")), 201), (change, 200)] {
            let answer = world.http().send(&request).await;
            if fits {
                record(&answer, success);
            } else {
                let errors = super::refused_with(&answer, 400, "invalid_itinerary", "errors");
                assert_eq!(errors, json!(["itinerary: must have at most 256 KiB"]));
            }
        }
    }
    assert_eq!(world.database.count("SELECT count(*) FROM itineraries").await, 2);
}

#[tokio::test]
async fn an_agency_whose_writes_wait_is_overloaded_on_every_route_and_another_is_not() {
    let mut world = World::start().await;
    let (lead, zeta) = (new_lead(&world, json!({})).await, world.add_tenant("zeta").await);
    world.end_workers().await;
    world.set("CONNECT_MAX_IN_FLIGHT_PER_TENANT", "2");
    world.restart_ingest().await;
    let routes: Vec<_> =
        every_route(&lead).into_iter().map(|route| (route.signed(&world.key), route.success())).collect();
    let http = tests::Http::new(world.http().address());
    let waiting: Vec<_> = (0..2)
        .map(|i| post_of(&world.key, "/clients", &format!("k-{i}"), &json!({"externalId": format!("{i}")})))
        .collect();
    let others = async {
        eventually("two writes wait", PATIENCE, async || match world.queues.depth("records").await {
            2 => Ok(()),
            found => Err(found.to_string()),
        })
        .await;
        for (request, _) in &routes {
            let answer = http.send(request).await;
            answer.assert_error(503, "overloaded");
            assert_eq!(answer.header("retry-after"), "1", "{answer:?}");
        }
        let theirs = zeta.records("GET", &at("/clients?phone=1"), "");
        assert_eq!(http.send(&theirs).await.status, 200);
        world.add_worker().await;
    };
    let (answers, ()) =
        futures_util::join!(join_all(waiting.iter().map(|request| http.send(request))), others);
    assert!(answers.iter().all(|answer| answer.status == 201), "{answers:?}");
    // Nothing was done, nor was a signature used up.
    for (request, success) in routes {
        let answer = http.send(&request).await;
        assert_eq!((answer.status, answer.header("idempotent-replayed")), (success, ""), "{answer:?}");
    }
}
