//! `v2` signatures (specification: Authentication; D1, D3).

use super::{patch_request, post_request, record, records_target};
use futures_util::future::join_all;
use serde_json::json;
use tests::raw::{exchange, head};
use tests::{HttpRequest, HttpResponse, World};

#[track_caller]
fn assert_unauthorized(response: &HttpResponse) {
    assert_eq!(response.assert_error(401, "unauthorized"), "Invalid Connect credentials");
}

#[tokio::test]
async fn an_error_response_uses_up_the_signature() {
    let world = World::shared().await;
    let unknown = "/clients/0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e";
    for request in [
        world.key.records("GET", &records_target("/clients"), ""),
        world.key.records("GET", &records_target(unknown), ""),
        patch_request(&world.key, unknown, &json!({"name": "Bo"})),
        patch_request(&world.key, unknown, &json!({"name": null})),
    ] {
        let status = world.http().send(&request).await.status;
        assert!(status == 400 || status == 404, "{status}");
        assert_unauthorized(&world.http().send(&request).await);
    }
}

#[tokio::test]
async fn a_replayed_post_gets_its_response_with_its_key_and_401_with_another() {
    let world = World::shared().await;
    let request = post_request(&world.key, "/clients", "k-1", &json!({"email": "ana@example.com"}));
    let first = world.http().send(&request).await;
    record(&first, 201);
    for http in world.all_http() {
        let again = http.send(&request).await;
        assert_eq!((again.status, again.header("idempotent-replayed")), (201, "true"));
        assert_eq!(again.body, first.body);
        let other_key = request.clone().replacing("idempotency-key", "k-2");
        assert_unauthorized(&http.send(&other_key).await);
        assert_unauthorized(&http.send(&request.clone().without("idempotency-key")).await);
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1);
}

#[tokio::test]
async fn one_idempotency_key_succeeds_for_concurrent_copies_of_one_signature() {
    let world = World::shared().await;
    let signed =
        world.key.records("POST", &records_target("/leads"), r#"{"contact":{"email":"ana@example.com"}}"#);
    let requests: Vec<_> =
        (0..20).map(|i| signed.clone().with("idempotency-key", format!("k-{}", i % 5))).collect();
    let ingests = world.all_http().into_iter().cycle();
    let responses = join_all(requests.iter().zip(ingests).map(|(request, http)| http.send(request))).await;
    let passed = responses.iter().filter(|response| response.status == 201).count();
    assert_eq!(passed, 4, "those of one key");
    responses.iter().filter(|response| response.status != 201).for_each(assert_unauthorized);
    assert_eq!(world.pipeline(&[]).await.len(), 1);
}

/// Sends a request with its target exactly as given.
async fn send_as_is(world: &World, request: &HttpRequest) -> u16 {
    exchange(world.http().address(), [head(request).as_slice(), b"\r\n"].concat()).await.status
}

#[tokio::test]
async fn a_query_is_verified_byte_for_byte() {
    let world = World::shared().await;
    // The spellings of a row are equivalent.
    for (route, status, spellings) in [
        (
            "/clients",
            200,
            &[
                "?email=a%40b.co&x=1",
                "?email=a@b.co&x=1",
                "?x=1&email=a%40b.co",
                "?email=%61%40b.co&x=1",
                "?email=a%40b.co&x=1&",
                "?&email=a%40b.co&x=1",
                "?email=a%40b.co&x",
                "?email=a%40b.co",
                "?e%6dail=a%40b.co",
            ][..],
        ),
        ("/leads", 200, &["?externalId=a+b", "?externalId=a%20b", "?externalId=a%20b&externalID=c"]),
        ("/leads", 200, &["?externalId=%C3%A9", "?externalId=%c3%a9"]),
        ("/clients", 400, &["", "?", "??", "?&"]),
        ("/clients/0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e", 404, &["", "?", "?x"]),
    ] {
        for sent in spellings {
            let request = world.key.records("GET", &records_target(&format!("{route}{sent}")), "");
            for signed in spellings.iter().filter(|signed| *signed != sent) {
                let other = world.key.records("GET", &records_target(&format!("{route}{signed}")), "");
                let other = HttpRequest { target: request.target.clone(), ..other };
                assert_eq!(send_as_is(&world, &other).await, 401, "{route}: signed {signed}, sent {sent}");
            }
            assert_eq!(send_as_is(&world, &request).await, status, "{route}{sent}");
        }
    }
}
