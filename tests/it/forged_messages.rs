//! Messages and replies that were not published by the programs: the broker's credentials are not enough.

use serde_json::{Value, json};
use tests::{MAX_WAIT, QueuedMessage, RECORDS, World, WorldBuilder, batch, event, eventually, text, until_equal};
use uuid::Uuid;

/// A world without workers: messages stay in the queues.
fn without_worker() -> WorldBuilder {
    World::with().workers(0).set("CONNECT_REPLY_TIMEOUT", "200ms")
}

async fn published_batch(world: &World) -> QueuedMessage {
    let contact = event("contact.identified").email("ana@example.com");
    world.send(&[contact]).await.assert_error(503, "processing_timeout");
    world.queues.take("events").await.expect("the batch").without_reply().verbatim()
}

/// Waits until so many messages are dead letters, and checks that they were counted as forged.
async fn until_forged(world: &World, queue: &str, count: u32) {
    world.until_depth(&format!("{queue}.dead"), count).await;
    let labels = [("queue", queue), ("reason", "forged")];
    let expected = f64::from(count);
    assert_eq!(world.workers[0].metrics().await.sum("connect_dead_lettered_total", &labels), expected);
}

/// The metadata with another value of a field.
fn with_meta_field(message: &QueuedMessage, field: &str, value: Value) -> QueuedMessage {
    let meta = message.header("x-connect-meta").expect("metadata");
    let mut meta: Value = serde_json::from_str(&meta).expect("JSON");
    meta[field] = value;
    message.clone().with_meta(&meta.to_string())
}

#[tokio::test]
async fn dead_letters_a_forged_batch_without_applying_it() {
    let mut world = without_worker().start().await;
    let genuine = published_batch(&world).await;
    let other_body = String::from_utf8_lossy(&genuine.body).replace("ana@", "eve@");
    let mac = |text: &str| genuine.clone().with_header("x-connect-mac", text);
    let forged = [
        genuine.clone().without_mac(),
        genuine.with_body(other_body.as_bytes()),
        with_meta_field(&genuine, "requestId", json!(Uuid::now_v7())),
        with_meta_field(&genuine, "dryRun", json!(true)),
        genuine.clone().with_id(&Uuid::now_v7().to_string()),
        // Signed for another queue.
        world.queues.sign("records", &genuine),
        mac(""),
        mac(&format!("v1={}", "0".repeat(64))),
    ];
    world.queues.publish_all("events", &forged).await;
    world.add_worker().await;
    until_forged(&world, "events", 8).await;
    let shown = world.connectctl.list(&["queue", "show", "events", "--dead"]).await;
    let mut macs: Vec<&str> = shown.iter().map(|letter| text(&letter["mac"])).collect();
    macs.sort_unstable();
    assert_eq!(macs, ["missing", "wrong", "wrong", "wrong", "wrong", "wrong", "wrong", "wrong"]);
    assert!(shown.iter().all(|letter| text(&letter["why"]).contains("forged")), "{shown:?}");
    for table in ["clients", "event_ledger"] {
        assert_eq!(world.database.count(&format!("SELECT count(*) FROM {table}")).await, 0, "{table}");
    }
    world.queues.publish_message("events", &genuine).await;
    until_equal("the genuine message is applied", 1, async || {
        world.database.count("SELECT count(*) FROM event_ledger").await
    })
    .await;
}

#[tokio::test]
async fn requests_succeed_beside_forged_batches_and_actions() {
    let world = World::start().await;
    let forged: Vec<_> = (0..200).map(|_| QueuedMessage::new(b"{}").verbatim()).collect();
    let requests = async {
        for i in 0..20 {
            world.accept(event("contact.identified").email(&format!("{i}@example.com"))).await;
        }
    };
    futures_util::join!(world.queues.publish_all("events", &forged), requests);
    until_forged(&world, "events", 200).await;
    // A wrong MAC is refused also where none is required.
    let action = json!({"action": "open-lead", "tenant": "acme", "email": "eve@example.com", "name": "Eve"});
    let message = QueuedMessage::new(action.to_string().as_bytes()).with_id(&Uuid::now_v7().to_string());
    let forged = world.queues.sign("events", &message);
    world.queues.publish_message("crm", &forged).await;
    until_forged(&world, "crm", 1).await;
    let done = world.queues.call("crm", &message).await;
    assert_eq!(serde_json::from_slice::<Value>(&done.body).expect("JSON")["ok"], true);
    assert_eq!(world.pipeline(&[]).await.len(), 1);
}

#[tokio::test]
async fn dead_letters_a_forged_records_write_without_applying_it() {
    let mut world = without_worker().set("CONNECT_REPLY_TIMEOUT", "5s").start().await;
    let body = json!({"contact": {"email": "ana@example.com"}}).to_string();
    let lead = world.key.records("POST", &format!("{RECORDS}/leads"), body).with("idempotency-key", "k-1");
    let request = async { world.http().send(&lead).await };
    let forging = async {
        let taken = eventually("the write is queued", MAX_WAIT, async || {
            world.queues.take("records").await.ok_or_else(|| "nothing".to_owned())
        });
        let message = taken.await.verbatim();
        let eves = String::from_utf8_lossy(&message.body).replace("ana@", "eve@");
        message.with_body(eves.as_bytes())
    };
    let (response, forged) = futures_util::join!(request, forging);
    response.assert_error(503, "processing_timeout");
    // By its metadata, its deadline has not passed.
    let later = common::clock::now() + chrono::TimeDelta::minutes(5);
    let forged = with_meta_field(&forged, "deadline", json!(later.to_rfc3339()));
    world.queues.publish_message("records", &forged).await;
    world.add_worker().await;
    until_forged(&world, "records", 1).await;
    assert_eq!(world.pipeline(&[]).await.len(), 0);
    // With a valid MAC it is applied: only the MAC had prevented that.
    world.queues.publish_message("records", &world.queues.sign("records", &forged)).await;
    until_equal("it is done", 1, async || world.pipeline(&[]).await.len()).await;
}

#[tokio::test]
async fn ignores_a_forged_reply_and_returns_the_workers_own() {
    let world = World::with().workers(0).start().await;
    let enquiry = event("enquiry.submitted").email("ana@example.com");
    let request = world.key.events(batch(std::slice::from_ref(&enquiry)));
    let working = async {
        let message = eventually("the batch is queued", MAX_WAIT, async || {
            world.queues.take("events").await.ok_or_else(|| "nothing".to_owned())
        })
        .await;
        let result = json!({"eventId": "forged", "status": "accepted", "clientId": Uuid::now_v7()});
        let reply = json!({"accepted": 1, "duplicate": 0, "failed": 0, "results": [result]});
        world.queues.reply(&message, reply.to_string().as_bytes()).await;
        world.ingests[0].until_logged("forged reply ignored").await;
        world.queues.publish_message("events", &message.verbatim()).await;
        tests::Program::worker(world.settings()).await
    };
    let (response, _worker) = futures_util::join!(async { world.http().send(&request).await }, working);
    assert_eq!(response.status, 200, "{response:?}");
    let result = &response.json()["results"][0];
    assert_eq!(world.pipeline(&[]).await[0]["id"], result["leadId"], "{result}");
}

#[tokio::test]
async fn advisor_actions_require_a_mac_when_the_operator_enforces_it() {
    let mut world = World::with().workers(0).start().await;
    world.add_worker().await;
    world.workers[0].until_ready().await;
    world.workers[0].until_logged("CONNECT_CRM_UNSIGNED is allow").await;
    world.end_workers().await;
    world.set("CONNECT_CRM_UNSIGNED", "refuse");
    world.add_worker().await;
    let action = json!({"action": "open-lead", "tenant": "acme", "email": "eve@example.com", "name": "Eve"});
    let message = QueuedMessage::new(action.to_string().as_bytes()).with_id(&Uuid::now_v7().to_string());
    world.queues.publish_message("crm", &message).await;
    until_forged(&world, "crm", 1).await;
    assert!(!world.workers[0].logs().contains("CONNECT_CRM_UNSIGNED"), "{}", world.workers[0].logs());
    assert_eq!(world.pipeline(&[]).await.len(), 0);
    let opened = ["advisor", "open-lead", "--tenant", "acme", "--email", "ana@example.com", "--name", "Ana"];
    let opened = world.connectctl.json(&opened).await;
    assert_eq!(text(&world.pipeline(&[]).await[0]["id"]), text(&opened["leadId"]));
}
