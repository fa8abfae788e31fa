//! `Idempotency-Key` (specification: Headers on records routes; D17).

use super::{client_route, get, lead_route, new_client, patch, post_request, record, records_target, writes_used};
use serde_json::{Value, json};
use tests::raw::RawConnection;
use tests::{HttpResponse, World, text};

async fn send(world: &World, route: &str, idempotency_key: &str, body: &Value) -> HttpResponse {
    world.http().send(&post_request(&world.key, route, idempotency_key, body)).await
}

fn ana() -> Value {
    json!({"email": "ana@example.com", "name": "Ana"})
}

#[track_caller]
fn assert_replay(response: &HttpResponse, of: &HttpResponse) {
    assert_eq!(response.header("idempotent-replayed"), "true", "{response:?}");
    assert_eq!((response.status, &response.body), (of.status, &of.body));
    assert_eq!(response.header("etag"), of.header("etag"));
    assert_eq!(response.header("content-type"), "application/json");
}

#[tokio::test]
async fn a_retry_returns_the_original_response_even_after_the_record_changed() {
    let world = World::shared().await;
    let first = send(&world, "/clients", "k-1", &ana()).await;
    let client = record(&first, 201);
    assert_eq!(first.header("idempotent-replayed"), "");
    assert_replay(&send(&world, "/clients", "k-1", &ana()).await, &first);
    record(&patch(&world, &client_route(&client), json!({"name": "Bo"})).await, 200);
    assert_replay(&send(&world, "/clients", "k-1", &ana()).await, &first);
    assert_eq!(record(&get(&world, &client_route(&client)).await, 200)["name"], "Bo");
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1);
}

#[tokio::test]
async fn field_order_and_white_space_do_not_make_another_body() {
    let world = World::shared().await;
    let forms = [
        r#"{"email":"ana@example.com","name":"Ana","travelers":[{"name":"Bo","age":7}]}"#,
        "{ \"travelers\" : [ {\"age\": 7, \"name\": \"B\\u006f\"} ],\n \"name\":\"Ana\", \"email\":\"ana@example.com\" }",
    ];
    let responses =
        forms.map(|body| world.key.records("POST", &records_target("/clients"), body).with("idempotency-key", "k-1"));
    let first = world.http().send(&responses[0]).await;
    record(&first, 201);
    assert_replay(&world.http().send(&responses[1]).await, &first);
}

#[tokio::test]
async fn rejects_a_key_reused_with_another_body_or_path() {
    let world = World::shared().await;
    record(&send(&world, "/clients", "k-1", &ana()).await, 201);
    for other in [json!({"email": "ana@example.com"}), json!({"email": "bo@example.com", "name": "Ana"})] {
        send(&world, "/clients", "k-1", &other).await.assert_error(422, "idempotency_key_reused");
    }
    let lead = json!({"contact": ana()});
    send(&world, "/leads", "k-1", &lead).await.assert_error(422, "idempotency_key_reused");
    record(&send(&world, "/leads", "K-1", &lead).await, 201);
    let other = json!({"contact": ana(), "title": "Other"});
    send(&world, "/leads", "K-1", &other).await.assert_error(422, "idempotency_key_reused");
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1);
}

#[tokio::test]
async fn idempotency_keys_of_different_callers_are_independent() {
    let world = World::shared().await;
    let second = world.add_key(tests::ALL_SCOPES).await;
    let zeta = world.add_tenant("zeta").await;
    let first = record(&send(&world, "/clients", "k-1", &ana()).await, 201);
    let other = json!({"email": "bo@example.com"});
    let of_second = record(&world.http().send(&post_request(&second, "/clients", "k-1", &other)).await, 201);
    let of_zeta = record(&world.http().send(&post_request(&zeta, "/clients", "k-1", &ana())).await, 201);
    assert_ne!(first["id"], of_second["id"]);
    assert_ne!(first["id"], of_zeta["id"]);
    assert_eq!(of_zeta["email"], "ana@example.com");
}

#[tokio::test]
async fn a_failure_is_not_remembered() {
    let world = World::shared().await;
    send(&world, "/clients", "k-1", &json!({"name": "Ana"})).await.assert_error(400, "identity_required");
    send(&world, "/clients", "k-1", &json!({"name": 1})).await.assert_error(400, "invalid_request");
    let taken = new_client(&world, ana()).await;
    assert_eq!(send(&world, "/clients", "k-1", &ana()).await.status, 409);
    // The same request passes once its cause is gone.
    let moved = json!({"email": "other@example.com"});
    record(&patch(&world, &client_route(&taken), moved).await, 200);
    let made = send(&world, "/clients", "k-1", &ana()).await;
    assert_eq!(made.header("idempotent-replayed"), "");
    assert_ne!(record(&made, 201)["id"], taken["id"]);
    assert_eq!(world.database.count("SELECT count(*) FROM idempotency_keys").await, 2);
}

#[tokio::test]
async fn a_post_requires_a_well_formed_idempotency_key() {
    let world = World::shared().await;
    for route in ["/clients", "/leads"] {
        let body = json!({"email": "ana@example.com"});
        let bare = world.key.records("POST", &records_target(route), body.to_string());
        world.http().send(&bare).await.assert_error(400, "idempotency_key_required");
        for blank in ["", " \t "] {
            send(&world, route, blank, &body).await.assert_error(400, "idempotency_key_required");
        }
        let twice = post_request(&world.key, route, "k", &body).with("idempotency-key", "k");
        world.http().send(&twice).await.assert_error(400, "invalid_request");
        for unfit in [&"k".repeat(201), "a\tb", "é"] {
            let message = send(&world, route, unfit, &body).await.assert_error(400, "invalid_request");
            assert!(message.contains("Idempotency-Key"), "{message}");
        }
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 0);
    record(&send(&world, "/clients", &"k".repeat(200), &ana()).await, 201);
    record(&send(&world, "/clients", "a b~!", &json!({"email": "bo@example.com"})).await, 201);
}

#[tokio::test]
async fn every_write_is_in_the_ledger_under_its_own_id() {
    let world = World::shared().await;
    let body = json!({"contact": ana()});
    let lead = record(&send(&world, "/leads", "k-1", &body).await, 201);
    send(&world, "/leads", "k-1", &body).await;
    record(&patch(&world, &lead_route(&lead), json!({"followUp": true})).await, 200);
    let rows = world.database.rows("SELECT event_id, lead_id::text FROM event_ledger", &[]).await;
    assert_eq!(rows.len(), 2, "{rows:?}");
    for row in rows {
        assert!(text(&row["event_id"]).starts_with("connect-api:"), "{row}");
        assert_eq!(row["lead_id"], lead["id"]);
    }
    assert_eq!(writes_used(&world).await, 2);
}

#[tokio::test]
async fn a_caller_that_disconnects_gets_one_record_by_retrying() {
    let world = World::shared().await;
    for i in 0..10 {
        let (key, body) = (format!("k-{i}"), json!({"contact": {"email": format!("{i}@example.com")}}));
        let request = post_request(&world.key, "/leads", &key, &body);
        let mut connection = RawConnection::to(world.http().address()).await;
        connection.send_request(&request).await;
        drop(connection);
        record(&send(&world, "/leads", &key, &body).await, 201);
    }
    assert_eq!(world.pipeline(&[]).await.len(), 10);
    assert_eq!(writes_used(&world).await, 10);
}
