//! Quota, metering and the rate of reads (specification: Limits; D23).

use super::{
    at, client_route, data, every_read, every_write, get, new_client, new_lead, patch, post, post_of, record,
    trip_route, used,
};
use futures_util::future::join_all;
use serde_json::json;
use tests::raw::{RawConnection, head};
use tests::{ALL_SCOPES, PATIENCE, World, event, eventually};

#[tokio::test]
async fn each_successful_write_counts_once_and_nothing_else_does() {
    let world = World::start().await;
    assert_eq!(used(&world).await, 0);
    let body = json!({"email": "bo@example.com"});
    let send = async || world.http().send(&post_of(&world.key, "/clients", "k-1", &body)).await;
    let client = record(&send().await, 201);
    assert_eq!(used(&world).await, 1);
    let lead = new_lead(&world, json!({})).await;
    record(&patch(&world, &client_route(&client), json!({"name": "Bo"})).await, 200);
    record(&patch(&world, &trip_route(&lead), json!({"message": "Hello"})).await, 200);
    assert_eq!(used(&world).await, 4);
    // A replay, reads, failures and events.
    assert_eq!(send().await.header("idempotent-replayed"), "true");
    data(&get(&world, &client_route(&client)).await, 200);
    data(&get(&world, "/clients?email=bo@example.com").await, 200);
    assert_eq!(post(&world, "/clients", body.clone()).await.status, 409);
    assert_eq!(patch(&world, &client_route(&client), json!({"name": null})).await.status, 400);
    let stale = super::patch_of(&world.key, &client_route(&client), &json!({"name": "x"}));
    assert_eq!(world.http().send(&stale.with("if-match", "\"x\"")).await.status, 412);
    world.accept(event("enquiry.submitted").email("bo@example.com")).await;
    assert_eq!(used(&world).await, 4);
}

#[tokio::test]
async fn a_quota_that_is_used_up_refuses_writes_but_no_replays_and_no_reads() {
    let world = World::start().await;
    world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--monthly-quota", "2"]).await;
    let body = json!({"email": "bo@example.com"});
    let first = world.http().send(&post_of(&world.key, "/clients", "k-1", &body)).await;
    let client = record(&first, 201);
    record(&patch(&world, &client_route(&client), json!({"name": "Bo"})).await, 200);
    let refused = [
        post(&world, "/clients", json!({"email": "cy@example.com"})).await,
        post(&world, "/leads", json!({"clientId": client["id"]})).await,
        patch(&world, &client_route(&client), json!({"name": "Cy"})).await,
    ];
    for answer in refused {
        answer.assert_error(429, "quota_exceeded");
        let seconds: u32 = answer.header("retry-after").parse().expect("seconds");
        assert!((1..=31 * 24 * 60 * 60).contains(&seconds), "{seconds}");
    }
    let replay = world.http().send(&post_of(&world.key, "/clients", "k-1", &body)).await;
    assert_eq!((replay.header("idempotent-replayed"), &replay.body), ("true", &first.body));
    assert_eq!(data(&get(&world, &client_route(&client)).await, 200)["name"], "Bo");
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1);
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 0);
    assert_eq!(used(&world).await, 2);
    // Events aren't metered; another agency has a quota of its own; a higher one lets writes pass.
    world.accept(event("contact.identified").email("cy@example.com")).await;
    let zeta = world.add_tenant("zeta").await;
    record(&super::post_as(&world, &zeta, "/clients", body).await, 201);
    world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--monthly-quota", "none"]).await;
    record(&patch(&world, &client_route(&client), json!({"name": "Cy"})).await, 200);
}

#[tokio::test]
async fn every_write_is_refused_when_the_quota_is_used_up_and_changes_nothing() {
    let world = World::start().await;
    let lead = new_lead(&world, json!({})).await;
    world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--monthly-quota", "1"]).await;
    for route in every_write(&lead) {
        let answer = world.http().send(&route.signed(&world.key)).await;
        answer.assert_error(429, "quota_exceeded");
        assert!(!answer.header("retry-after").is_empty(), "{route:?}: {answer:?}");
    }
    assert_eq!(data(&get(&world, &super::lead_route(&lead)).await, 200), lead);
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1);
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 1);
    assert_eq!(world.database.count("SELECT count(*) FROM event_ledger").await, 1);
    assert_eq!(used(&world).await, 1);
}

#[tokio::test]
async fn of_forty_writes_at_once_exactly_the_quota_passes() {
    let world = World::with().workers(2).start().await;
    world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--monthly-quota", "10"]).await;
    let posts = (0..40).map(|i| post(&world, "/clients", json!({"email": format!("{i}@example.com")})));
    let answers = join_all(posts).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 10);
    for answer in answers.iter().filter(|answer| answer.status != 201) {
        answer.assert_error(429, "quota_exceeded");
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 10);
    assert_eq!(used(&world).await, 10);
}

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
