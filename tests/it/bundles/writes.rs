//! Records writes of a key share messages like small batches.

use super::traces::lines;
use super::{request_ids, stallable, until_published};
use crate::records::{new_client, patch_request, post_request};
use futures_util::future::join_all;
use serde_json::json;
use tests::{HttpClient, Program, QueuedMessage, World};
use uuid::Uuid;

#[tokio::test]
async fn writes_arriving_during_a_publish_share_a_message_and_get_their_own_responses() {
    let mut world = stallable().set("RUST_LOG", "info,ingest=debug").start().await;
    let known = new_client(&world, json!({"email": "known@example.com"})).await;
    world.end_workers().await;
    let post = |key: &str, email: &str| post_request(&world.key, "/clients", key, &json!({"email": email}));
    let first = post("k-0", "first@example.com");
    let missing = patch_request(&world.key, &format!("/clients/{}", Uuid::now_v7()), &json!({"name": "Bo"}));
    let rest = [
        post("k-1", "ana@example.com"),
        post("k-1", "ana@example.com"),
        post("k-2", "known@example.com"),
        post("k-3", "cy@example.com"),
        missing,
        post("k-4", "dry@example.com").with("connect-dry-run", "true"),
    ];
    let http = HttpClient::new(world.http().address());
    let (settings, ingest) = (world.settings().to_vec(), &world.ingests[0]);
    // The one before made the known client.
    let so_far = 1;
    world.proxies().broker.stall();
    let later = async {
        until_published(ingest, so_far + 1).await;
        join_all(rest.iter().map(|request| http.send(request))).await
    };
    let driving = async {
        lines(ingest, "waiting for the publish under way", 5).await;
        until_published(ingest, so_far + 2).await;
        world.proxies().broker.restore();
        until_published(ingest, so_far + 7).await;
        world.until_depth("records", 4).await;
        let messages = world.queues.take_all("records").await;
        let mut counts: Vec<usize> = messages.iter().map(|message| request_ids(message).len()).collect();
        counts.sort_unstable();
        assert_eq!(counts, [1, 1, 1, 4], "four writes are the most, and the dry run travels alone");
        // The replies to the first delivery are lost.
        let lost: Vec<_> = messages.iter().map(QueuedMessage::without_reply).collect();
        world.queues.publish_all("records", &lost).await;
        let worker = Program::worker(&settings).await;
        world.until_applied(4).await;
        world.until_depth("records", 0).await;
        world.queues.publish_all("records", &messages).await;
        worker
    };
    let (first, later, _worker) = futures_util::join!(http.send(&first), later, driving);
    first.assert_status(201);
    let replayed = later[..2].iter().map(|response| response.header("idempotent-replayed"));
    let mut replayed: Vec<&str> = replayed.collect();
    replayed.sort_unstable();
    assert_eq!(replayed, ["", "true"]);
    assert_eq!(later[0].json(), later[1].json());
    assert_eq!(later[2].json()["clientId"], known["id"]);
    let statuses: Vec<u16> = later.iter().map(|response| response.status).collect();
    assert_eq!(statuses, [201, 201, 409, 201, 404, 201]);
    for (response, email) in [(&later[0], "ana@example.com"), (&later[3], "cy@example.com")] {
        assert_eq!(response.json()["data"]["email"], email);
    }
    let entries = "SELECT count(DISTINCT request_id) FROM event_ledger";
    assert_eq!(world.database.count(entries).await, 4, "each has the id of its request");
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 4);
    assert_eq!(world.connectctl.json(&["usage", "--tenant", "acme"]).await["writes"], 4);
}

#[tokio::test]
async fn a_write_without_a_confirm_delays_the_next_one_of_its_key_for_a_while_only() {
    let world = World::with().through_proxies().set("CONNECT_PUBLISH_TIMEOUT", "200ms").start().await;
    world.until_ready().await;
    let post = |key: &str| post_request(&world.key, "/clients", key, &json!({"externalId": key}));
    world.proxies().broker.stall();
    let next = async {
        until_published(&world.ingests[0], 1).await;
        world.http().send(&post("k-2")).await
    };
    let driving = async {
        until_published(&world.ingests[0], 2).await;
        world.proxies().broker.restore();
    };
    let first = post("k-1");
    let (first, next, ()) = futures_util::join!(world.http().send(&first), next, driving);
    assert_eq!((first.status, next.status), (201, 201));
}
