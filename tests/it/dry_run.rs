//! `Connect-Dry-Run` (D46): the response of a real request, and nothing is written.

use crate::connectctl::fields;
use crate::console::ConsoleWorld;
use crate::records::{client_route, data, get, lead_route, new_client, new_lead, patch_request, post_request, record};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tests::{Event, HttpRequest, HttpResponse, Program, UNREACHED_RECEIVER, World, batch, event, text};

const DRY_RUN: &str = "connect-dry-run";

async fn dry(world: &World, request: HttpRequest) -> HttpResponse {
    let response = world.http().send(&request.with(DRY_RUN, "true")).await;
    assert_eq!(response.header(DRY_RUN), "true", "{response:?}");
    response
}

async fn dry_results(world: &World, events: &[Event]) -> Vec<Value> {
    let response = dry(world, world.key.events(batch(events))).await.assert_status(200);
    response.json()["results"].as_array().expect("results").clone()
}

/// Digests of the tenant's rows, by table. Every signed request has a replay entry and is counted for its key; activity is counted
/// each minute.
async fn stored(world: &World) -> Vec<Value> {
    let tables = "SELECT relname AS name FROM pg_class WHERE relnamespace = 'of_test'::regnamespace AND relname NOT IN
        ('replay_entries', 'api_key_requests', 'api_key_uses', 'refused_requests', 'activity_minutes')";
    let tables = world.database.rows(tables, &[]).await;
    let digest = |table: &Value| {
        let name = text(&table["name"]);
        format!("SELECT '{name}' AS table, md5(string_agg(t::text, '|' ORDER BY t::text)) FROM of_test.{name} t")
    };
    let digests: Vec<String> = tables.iter().map(digest).collect();
    assert!(digests.len() > 30, "{}", digests.len());
    world.database.rows(&digests.join(" UNION ALL "), &[]).await
}

#[tokio::test]
async fn a_dry_batch_gets_the_results_of_a_real_one_without_ids_of_what_it_would_create() {
    let world = World::shared().await;
    let ana = |kind: &str, id: &str| event(kind).id(id).email("ana@example.com");
    let bo = |kind: &str, id: &str| event(kind).id(id).email("bo@example.com");
    let opened = ana("enquiry.submitted", "known").payload(json!({"paxCount": -1}));
    let known = world.accept(opened.clone()).await;
    world.subscribe(UNREACHED_RECEIVER).await;
    let before = stored(&world).await;
    let events = [
        bo("contact.updated", "e-1"),
        bo("enquiry.submitted", "e-2").payload(json!({"paxCount": -1})),
        bo("contact.updated", "e-3").name("Bo"),
        bo("contact.identified", "e-2"),
        opened,
        ana("booking.started", "e-4"),
        ana("traveller.discovery_upserted", "e-5").payload(json!({"discovery": {"pax": 2}})),
        ana("enquiry.submitted", "e-6"),
    ];
    let first = dry_results(&world, &events).await;
    assert_eq!(dry_results(&world, &events).await, first, "a dry run sees nothing of an earlier one");
    assert_eq!(stored(&world).await, before);

    let real = world.results(&events).await;
    let expected = [
        "error eventId status",
        "eventId status warningDetails warnings",
        "eventId status",
        "eventId status warningDetails warnings",
        "clientId eventId leadId status tripId warningDetails warnings",
        "clientId eventId leadId status tripId",
        "clientId eventId leadId status tripId",
        "clientId eventId status",
    ];
    for ((dry, real), names) in first.iter().zip(&real).zip(expected) {
        assert_eq!(fields(dry).join(" "), names, "{dry}");
        names.split(' ').for_each(|name| assert_eq!(dry[name], real[name], "{name} of {real}"));
    }
    assert_eq!((&first[4]["leadId"], &first[5]["leadId"]), (&known["leadId"], &known["leadId"]));
}

#[tokio::test]
async fn dry_writes_get_the_responses_of_real_ones_and_occupy_no_key() {
    let world = World::shared().await;
    let lead = new_lead(&world, json!({})).await;
    let client = json!({"email": "bo@example.com", "name": "Bo"});
    let client_with = |key: &str| post_request(&world.key, "/clients", key, &client);
    let before = stored(&world).await;
    for _ in 0..2 {
        let response = dry(&world, client_with("k-1")).await;
        let shown = data(&response, 201);
        assert_eq!((shown.get("id"), &shown["email"]), (None, &client["email"]), "{shown}");
        assert_eq!((response.header("etag"), response.header("idempotent-replayed")), ("", ""));
    }
    let of_lead =
        |contact: &Value| post_request(&world.key, "/leads", "k-2", &json!({"contact": contact, "title": "Goa"}));
    let of_new = data(&dry(&world, of_lead(&client)).await, 201);
    let of_known = data(&dry(&world, of_lead(&json!({"email": "ana@example.com"}))).await, 201);
    assert_eq!((&of_known["clientId"], &of_known["title"]), (&lead["clientId"], &json!("Goa")));
    for absent in ["id", "enquiryNumber", "tripId", "owner"] {
        assert!(of_known.get(absent).is_none() && of_new.get(absent).is_none(), "{of_known} {of_new}");
    }
    assert_eq!(of_new.get("clientId"), None, "{of_new}");

    let route = lead_route(&lead);
    let etag = get(&world, &route).await.header("etag").to_owned();
    let patch =
        |condition: &str| patch_request(&world.key, &route, &json!({"stage": "follow_up"})).with("if-match", condition);
    let changed = dry(&world, patch(&etag)).await;
    assert_eq!((data(&changed, 200)["stage"].clone(), changed.header("etag")), (json!("follow_up"), ""));
    assert_eq!(dry(&world, patch("\"x\"")).await.json()["updatedAt"], lead["updatedAt"]);
    assert_eq!(stored(&world).await, before);
    assert_eq!(record(&get(&world, &route).await, 200), lead);

    let real = world.http().send(&client_with("k-1")).await;
    let id = record(&real, 201)["id"].clone();
    assert_eq!((real.header("idempotent-replayed"), real.header(DRY_RUN)), ("", ""));
    let replay = dry(&world, client_with("k-1")).await;
    assert_eq!((replay.header("idempotent-replayed"), &replay.body), ("true", &real.body));
    assert_eq!(replay.header("etag"), real.header("etag"));
    dry(&world, post_request(&world.key, "/clients", "k-1", &json!({"email": "cy@example.com"})))
        .await
        .assert_error(422, "idempotency_key_reused");
    assert_eq!(dry(&world, client_with("k-3")).await.json()["clientId"], id, "409 client_exists");
    let renamed = patch_request(&world.key, &client_route(&json!({"id": id})), &json!({"name": "Cy"}));
    assert_eq!(data(&dry(&world, renamed).await, 200)["name"], "Cy");
}

#[tokio::test]
async fn the_quota_is_checked_and_not_used_and_a_refusal_is_recorded_and_not_counted() {
    let mut world = World::with().join().await;
    let dry_post = async |key: &str| {
        let body = json!({"email": format!("{key}@example.com")});
        dry(&world, post_request(&world.key, "/clients", key, &body)).await
    };
    world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--monthly-quota", "1"]).await;
    for key in ["a", "b"] {
        assert_eq!(dry_post(key).await.status, 201, "{key}");
    }
    new_client(&world, json!({"email": "ana@example.com"})).await;
    dry_post("c").await.assert_error(429, "quota_exceeded");
    assert_eq!(world.connectctl.json(&["usage", "--tenant", "acme"]).await["writes"], 1);

    world.end_ingests().await;
    let counted = "SELECT sum(accepted) AS accepted, sum(refused) AS refused FROM api_key_requests";
    assert_eq!(world.database.rows(counted, &[]).await, [json!({"accepted": 1, "refused": 0})]);
    let recorded = world.connectctl.list(&["refusals", "--tenant", "acme"]).await;
    assert_eq!(recorded.len(), 1, "{recorded:?}");
    assert_eq!((&recorded[0]["reason"], &recorded[0]["dryRun"]), (&json!("quota_exceeded"), &json!(true)));
    let console = ConsoleWorld { console: None, world };
    let attention = console.viewer().await.page("/agencies/acme").await;
    assert!(attention.contains("quota is used up") && !attention.contains("are refused"), "{attention}");
}

#[tokio::test]
async fn a_bad_dry_run_is_refused_like_a_real_request_and_a_bad_header_by_its_name() {
    let world = World::shared().await;
    let requests = || {
        let events = world.key.events(batch(&[event("contact.identified").email("ana@example.com")]));
        [events, post_request(&world.key, "/clients", "k", &json!({"email": "ana@example.com"}))]
    };
    for values in [&["false"][..], &["True"], &["1"], &[""], &["true, true"], &["true", "true"]] {
        for request in requests() {
            let request = values.iter().fold(request, |request, value| request.with(DRY_RUN, value));
            let response = world.http().send(&request).await;
            let message = response.assert_error(400, "invalid_request");
            assert!(message.starts_with("Connect-Dry-Run: ") && response.header(DRY_RUN).is_empty(), "{response:?}");
        }
    }
    let bad = || {
        let client = |body| post_request(&world.key, "/clients", "k", &body);
        [world.key.events(r#"{"events": [1]}"#), client(json!({"email": 1})), client(json!({"name": "Ana"}))]
    };
    for (real, request) in bad().iter().zip(bad()) {
        let (real, response) = (world.http().send(real).await, dry(&world, request).await);
        assert_eq!((response.status, &response.body), (400, &real.body));
    }
    dry(&world, HttpRequest::new("POST", "/none", "")).await.assert_error(404, "not_found");
    for used in requests() {
        assert!([200, 201].contains(&dry(&world, used.clone()).await.status));
        world.http().send(&used).await.assert_error(401, "unauthorized");
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 0);
}

#[tokio::test]
async fn dry_runs_beside_real_requests_take_nothing_away_from_them_and_write_nothing_when_they_are_redelivered() {
    let mut world = World::with().workers(0).set("CONNECT_REPLY_TIMEOUT", "110s").start().await;
    let requests: Vec<HttpRequest> = (0..10)
        .flat_map(|i| {
            let email = format!("{i}@example.com");
            let enquiry = || world.key.events(batch(&[event("enquiry.submitted").email(&email)]));
            let client = json!({"phone": format!("+49 30 {i}")});
            let post = || post_request(&world.key, "/clients", &format!("k-{i}"), &client);
            [enquiry(), enquiry().with(DRY_RUN, "true"), post(), post().with(DRY_RUN, "true")]
        })
        .collect();
    let settings = world.settings().to_vec();
    let seen = &world;
    let sent = join_all(requests.iter().map(|request| seen.http().send(request)));
    let working = async {
        seen.ingests[0].until_sum("connect_bundle_requests_sum", &[], 40.0).await;
        Program::worker(&settings).await
    };
    let (responses, worker) = futures_util::join!(sent, working);
    world.workers.push(worker);
    for (request, response) in requests.iter().zip(&responses) {
        let is_dry = request.headers.iter().any(|(name, _)| name == DRY_RUN);
        assert!([200, 201].contains(&response.status), "{response:?}");
        assert_eq!(response.header(DRY_RUN) == "true", is_dry);
    }
    assert_stored_by_ten(&world).await;
    let counted = world.workers[0].metrics().await.sum("connect_events_total", &[]);
    let accepted = world.ingests[0].metrics().await.sum("connect_events_accepted_total", &[]);
    assert_eq!((counted, accepted), (10.0, 10.0));
    redeliver_dry_runs(&mut world).await;
    assert_stored_by_ten(&world).await;
}

/// Checks that ten enquiries and ten new clients were stored, and nothing else.
async fn assert_stored_by_ten(world: &World) {
    for (table, count) in [("clients", 20), ("leads", 10), ("event_ledger", 20), ("idempotency_keys", 10)] {
        assert_eq!(world.database.count(&format!("SELECT count(*) FROM {table}")).await, count, "{table}");
    }
}

/// Kills the worker that is at two dry runs, which the next one gets.
async fn redeliver_dry_runs(world: &mut World) {
    let settings = world.settings().to_vec();
    // A worker that has handled nothing: what it had not acknowledged yet would be redelivered as well.
    world.end_workers().await;
    let mut killed = Program::worker(&settings).await;
    // Both pipelines read this table before they decide.
    let lock = world.database.begin("LOCK TABLE event_ledger IN ACCESS EXCLUSIVE MODE").await;
    let enquiry = world.key.events(batch(&[event("enquiry.submitted").email("late@example.com")]));
    let client = post_request(&world.key, "/clients", "k-late", &json!({"email": "later@example.com"}));
    let seen = &*world;
    let killing = async {
        for pool in ["worker", "records"] {
            seen.database.until_lock_wait_of(pool).await;
        }
        killed.kill();
        lock.batch_execute("COMMIT").await.expect("a commit");
        Program::worker(&settings).await
    };
    let (enquiry, client, worker) = futures_util::join!(dry(seen, enquiry), dry(seen, client), killing);
    assert_eq!((enquiry.status, &enquiry.json()["accepted"]), (200, &json!(1)), "{enquiry:?}");
    assert_eq!(data(&client, 201).get("id"), None, "{client:?}");
    for queue in ["events", "records"] {
        worker.until_sum("connect_redelivered_total", &[("queue", queue)], 1.0).await;
    }
    assert_eq!(worker.metrics().await.sum("connect_events_total", &[]), 0.0);
    world.workers.push(worker);
}
