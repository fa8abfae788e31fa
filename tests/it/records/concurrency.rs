//! Many writes at once, over several programs (D17, D19, D23).

use super::{at_once, client_route, data, doubled, get, new_client, patch_of, post_of, record, used};
use serde_json::{Value, json};
use std::collections::HashSet;
use tests::text;

#[tokio::test]
async fn fifty_posts_at_once_with_one_key_make_one_record() {
    let world = doubled().await;
    for (route, table) in [("/clients", "clients"), ("/leads", "leads")] {
        let ana = json!({"email": format!("{table}@example.com")});
        let body = if table == "leads" { json!({"contact": ana}) } else { ana };
        let requests: Vec<_> = (0..50).map(|_| post_of(&world.key, route, table, &body)).collect();
        let answers = at_once(&world, &requests).await;
        let created = record(&answers[0], 201);
        assert!(answers.iter().all(|answer| record(answer, 201) == created), "{answers:?}");
        let first = answers.iter().filter(|answer| answer.header("idempotent-replayed").is_empty()).count();
        assert_eq!(first, 1, "one creates, the others are replays");
        let made = world.database.count(&format!("SELECT count(*) FROM {table}")).await;
        assert_eq!(made, 1, "{table}");
    }
    assert_eq!(used(&world).await, 2);
}

#[tokio::test]
async fn fifty_posts_at_once_of_one_email_with_keys_of_their_own_make_one_client() {
    let world = doubled().await;
    let requests: Vec<_> = (0..50)
        .map(|i| {
            let email = if i % 2 == 0 { "ana@example.com" } else { "ANA@Example.com" };
            post_of(&world.key, "/clients", &format!("k-{i}"), &json!({"email": email}))
        })
        .collect();
    let answers = at_once(&world, &requests).await;
    let (created, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 201);
    assert_eq!((created.len(), refused.len()), (1, 49), "{answers:?}");
    let id = &record(created[0], 201)["id"];
    for answer in refused {
        assert_eq!(super::refused_with(answer, 409, "client_exists", "clientId"), *id);
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1);
    assert_eq!(used(&world).await, 1);
}

#[tokio::test]
async fn of_patches_of_a_client_at_once_with_one_etag_exactly_one_succeeds() {
    let world = doubled().await;
    let client = new_client(&world, json!({"email": "bo@example.com"})).await;
    let route = client_route(&client);
    for _ in 0..3 {
        let etag = get(&world, &route).await.header("etag").to_owned();
        let requests: Vec<_> = (0..10)
            .map(|i| {
                let body = json!({"name": format!("{i} of {etag}")});
                patch_of(&world.key, &route, &body).with("if-match", &etag)
            })
            .collect();
        let answers = at_once(&world, &requests).await;
        let (done, stale): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
        assert_eq!((done.len(), stale.len()), (1, 9), "{route}: {answers:?}");
        let kept = record(done[0], 200);
        for answer in stale {
            assert_eq!(super::refused_with(answer, 412, "stale_write", "updatedAt"), kept["updatedAt"]);
        }
        assert_eq!(data(&get(&world, &route).await, 200), kept, "{route}");
    }
}

#[tokio::test]
async fn the_version_of_a_record_strictly_grows_with_every_change_at_once() {
    let world = doubled().await;
    let client = new_client(&world, json!({"email": "bo@example.com"})).await;
    let route = client_route(&client);
    let requests: Vec<_> =
        (0..40).map(|i| patch_of(&world.key, &route, &json!({"name": format!("Name {i}")}))).collect();
    let answers = at_once(&world, &requests).await;
    let mut versions: HashSet<String> =
        answers.iter().map(|answer| text(&record(answer, 200)["updatedAt"]).to_owned()).collect();
    versions.insert(text(&client["updatedAt"]).to_owned());
    assert_eq!(versions.len(), 41, "every change has a version of its own");
    let last = record(&get(&world, &route).await, 200);
    assert_eq!(versions.iter().max().map(String::as_str), Some(text(&last["updatedAt"])));
}

#[tokio::test]
async fn of_two_that_want_one_external_id_at_once_one_gets_it() {
    let world = doubled().await;
    let mut clients = Vec::new();
    for i in 0..8 {
        clients.push(new_client(&world, json!({"email": format!("{i}@example.com")})).await);
    }
    let requests: Vec<_> = clients
        .iter()
        .map(|client| patch_of(&world.key, &client_route(client), &json!({"externalId": "p-1"})))
        .collect();
    let answers = at_once(&world, &requests).await;
    let (done, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert_eq!((done.len(), refused.len()), (1, 7), "{answers:?}");
    let holder = &record(done[0], 200)["id"];
    for answer in refused {
        assert_eq!(super::refused_with(answer, 409, "identity_taken", "clientId"), *holder);
    }
}

#[tokio::test]
async fn changes_at_once_to_different_fields_are_all_kept() {
    let world = doubled().await;
    let client = new_client(&world, json!({"email": "bo@example.com"})).await;
    let fields = [
        ("name", json!("Bo")),
        ("phone", json!("333")),
        ("company", json!("Bo & Co")),
        ("externalId", json!("p-1")),
        ("marketingOptIn", json!(true)),
    ];
    let change = |(field, value): &(&str, Value)| {
        patch_of(&world.key, &client_route(&client), &json!({*field: value}))
    };
    let requests: Vec<_> = fields.iter().map(change).collect();
    for answer in at_once(&world, &requests).await {
        record(&answer, 200);
    }
    let after = record(&get(&world, &client_route(&client)).await, 200);
    for (field, value) in fields {
        assert_eq!(after[field], value, "{field}");
    }
}
