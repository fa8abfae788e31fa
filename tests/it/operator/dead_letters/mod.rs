//! `connectctl queue`: on dead letters of a real worker.

mod requeue;

use crate::connectctl::fields;
use serde_json::{Value, json};
use tests::{CommandOutput, Connectctl, MAX_WAIT, QueuedMessage, World, eventually, text};
use uuid::Uuid;

/// A world with a worker, which has declared the queues.
async fn world() -> World {
    let world = World::with().ingests(0).start().await;
    world.workers[0].until_ready().await;
    world
}

async fn until_dead(world: &World, queue: &str, count: u32) {
    let dead = format!("{queue}.dead");
    // The broker takes some milliseconds for each.
    let within = MAX_WAIT * 3;
    eventually("the messages are dead-lettered", within, async || match world.queues.depth(&dead).await {
        depth if depth == count => Ok(()),
        depth => Err(format!("{depth} of {count}")),
    })
    .await;
}

/// The metadata of a batch of `acme`, as ingest writes it.
async fn batch_meta(world: &World) -> Value {
    let rows = world.database.rows("SELECT tenant_id FROM tenants WHERE slug = 'acme'", &[]).await;
    let caller = json!({"tenant_id": rows[0]["tenant_id"], "tenant": "acme", "key": world.key.prefix,
        "scopes": ["events:ingest"], "origin": null});
    json!({"requestId": Uuid::now_v7(), "caller": caller, "publishedAt": "2026-05-01T10:00:00Z", "events": 1,
        "dryRun": false})
}

/// Messages that no worker can read, each with a different body.
fn poison(count: u32) -> Vec<QueuedMessage> {
    (0..count).map(|at| QueuedMessage::new(format!("{at:06} ana@example.com").as_bytes())).collect()
}

fn bodies(messages: &[QueuedMessage]) -> Vec<String> {
    messages.iter().map(|message| String::from_utf8_lossy(&message.body).into_owned()).collect()
}

fn find<'l>(listed: &'l [Value], name: &str) -> &'l Value {
    listed.iter().find(|queue| queue["name"] == name).unwrap_or_else(|| panic!("no {name} in {listed:?}"))
}

#[tokio::test]
async fn lists_every_queue_with_its_depth_consumers_and_dead_letters() {
    let world = world().await;
    world.queues.publish_all("events", &poison(3)).await;
    until_dead(&world, "events", 3).await;
    world.queues.publish("webhooks.dead", b"{}").await;
    let listed = world.connectctl.list(&["queue", "list"]).await;
    let names = ["events", "events.dead", "records", "records.dead", "crm", "crm.dead", "webhooks.dead"];
    assert_eq!(listed.iter().map(|queue| queue["name"].clone()).collect::<Vec<_>>(), names.map(Value::from));
    let expected = &json!({"name": "events", "depth": 0, "consumers": 2, "dead": 3, "oldest": null});
    assert_eq!(find(&listed, "events"), expected);
    let expected = &json!({"name": "events.dead", "depth": 3, "consumers": 0, "dead": null, "oldest": null});
    assert_eq!(find(&listed, "events.dead"), expected);
    let expected = &json!({"name": "webhooks.dead", "depth": 1, "consumers": 0, "dead": null, "oldest": null});
    assert_eq!(find(&listed, "webhooks.dead"), expected);
    let table = world.connectctl.run(&["queue", "list"]).await;
    assert!(table.code == Some(0) && table.output.lines().count() > 7, "{table:?}");
}

#[tokio::test]
async fn queues_are_inspected_without_a_database_and_changed_with_one() {
    let world = world().await;
    let (amqp_url, prefix) = (world.queues.url().to_owned(), world.queues.prefix().to_owned());
    let settings = [("AMQP_URL", amqp_url), ("CONNECT_QUEUE_PREFIX", prefix)];
    let connectctl = Connectctl::with(settings.map(|(name, value)| (name.to_owned(), value)).to_vec());
    assert_eq!(find(&connectctl.list(&["queue", "list"]).await, "events")["dead"], 0);
    assert!(connectctl.list(&["queue", "show", "events", "--dead"]).await.is_empty());
    let changes: [&[&str]; 3] = [
        &["queue", "requeue", "events", "--dead"],
        &["queue", "requeue", "webhooks", "--dead"],
        &["queue", "drop", "events", "--dead", "--yes"],
    ];
    for change in changes {
        connectctl.assert_refusal(change, "DATABASE_URL").await;
        world.connectctl.json(change).await;
    }
}

#[tokio::test]
async fn a_wrong_prefix_is_reported_and_creates_no_queues() {
    let world = World::with().ingests(0).workers(0).start().await;
    let prefix = format!("{}x", world.queues.prefix());
    let connectctl = world.connectctl.clone().and("CONNECT_QUEUE_PREFIX", &prefix);
    let listed = connectctl.list(&["queue", "list"]).await;
    let expected = &json!({"name": "events", "depth": null, "consumers": null, "dead": null, "oldest": null});
    assert_eq!(find(&listed, "events"), expected);
    for command in [
        ["show", "events", "--dead"].as_slice(),
        &["requeue", "crm", "--dead"],
        &["drop", "records", "--dead", "--yes"],
    ] {
        let refusal = connectctl.refusal(&[&["queue"], command].concat()).await;
        assert!(refusal.contains(&format!("the queue {prefix}.{}.dead does not exist", command[1])), "{refusal}");
    }
    let queues = tests::Queues::new(world.queues.url(), prefix);
    for queue in ["events", "events.dead", "crm.dead", "records.dead"] {
        assert!(!queues.exists(queue).await, "{queue}");
    }
}

#[tokio::test]
async fn shows_reason_and_time_of_dead_letters_without_personal_data() {
    let world = world().await;
    let body = br#"{"events":[{"actor":{"email":"ana@example.com"}}]}"#;
    let meta = batch_meta(&world).await;
    let poison = [
        QueuedMessage::new(body).with_id_and_reply("m-1", "nobody"),
        QueuedMessage::new(body).with_meta("{\"caller\":\"ana@example.com\"}"),
        QueuedMessage::new(body).with_meta(&meta.to_string()),
    ];
    // To the second, as the broker tells it.
    let now = || common::clock::to_text(common::clock::now())[..19].to_owned();
    let before = now();
    world.queues.publish_all("events", &poison).await;
    until_dead(&world, "events", 3).await;
    let after = now();

    let ran = world.connectctl.run(&["queue", "show", "events", "--dead", "--json"]).await;
    assert!(!ran.output.contains("ana@"), "{ran:?}");
    let shown = ran.json();
    let mut shown = shown.as_array().expect("an array").clone();
    // Two lanes of the worker rejected them, in any order.
    shown.sort_by_key(|letter| letter["why"].to_string());
    let whys: Vec<&str> = shown.iter().map(|letter| text(&letter["why"])).collect();
    assert_eq!(whys, ["has no metadata", "its body cannot be parsed", "its metadata cannot be parsed"]);
    for letter in &shown {
        let expected = "at bytes count deliveryId eventId mac messageId publishedAt reason requestId subscriptionId tenantId \
            type why";
        assert_eq!(fields(letter).join(" "), expected);
        assert_eq!((&letter["reason"], &letter["count"]), (&json!("rejected"), &json!(1)));
        assert_eq!((&letter["bytes"], &letter["mac"]), (&json!(body.len()), &json!("valid")));
        let at = &text(&letter["at"])[..19];
        assert!(before.as_str() <= at && at <= after.as_str(), "{letter}");
    }
    assert_eq!((&shown[0]["messageId"], &shown[0]["type"]), (&json!("m-1"), &json!(null)));
    assert_eq!((&shown[1]["requestId"], &shown[1]["type"]), (&meta["requestId"], &json!("batch of 1")));
    assert_eq!(shown[1]["tenantId"], meta["caller"]["tenant_id"]);
    let table = world.connectctl.run(&["queue", "show", "events", "--dead"]).await;
    assert!(table.output.contains("has no metadata") && !table.output.contains("ana@"), "{table:?}");
}

#[tokio::test]
async fn showing_dead_letters_keeps_them_and_their_order() {
    let world = world().await;
    // More than the command consumes on one channel.
    let sent = poison(7_000);
    world.queues.publish_all("events.dead", &sent).await;
    let look = async |limit: usize| {
        let limited = ["queue", "show", "events", "--dead", "--limit", &limit.to_string()];
        assert_eq!(world.connectctl.list(&limited).await.len(), limit.min(7_000));
    };
    // RabbitMQ 4 would drop what was handed out twenty times, had the queue no limit of its own.
    for looks in 0..25 {
        look(looks + 1).await;
    }
    look(8_000).await;
    until_dead(&world, "events", 7_000).await;
    assert_eq!(bodies(&world.queues.take_all("events.dead").await), bodies(&sent));
}

#[tokio::test]
async fn shows_a_dead_webhook_with_its_delivery_ids() {
    let world = world().await;
    let id = |n: u8| format!("00000000-0000-7000-8000-0000000000{n:02}");
    let meta = json!({"tenantId": id(1), "deliveryId": id(2), "subscriptionId": id(3), "eventId": id(4),
        "eventType": "lead.assigned", "attempt": 6, "publishedAt": "2026-05-01T10:00:00Z", "reason": "status 500"});
    world.queues.publish_message("webhooks.dead", &QueuedMessage::new(b"{}").with_meta(&meta.to_string())).await;
    let shown = world.connectctl.list(&["queue", "show", "webhooks", "--dead"]).await;
    let expected = json!({"at": null, "reason": "status 500", "why": "all attempts failed: see connectctl delivery show",
        "mac": "valid", "count": null, "bytes": 2, "messageId": null, "type": "lead.assigned", "tenantId": id(1), "requestId": null,
        "deliveryId": id(2), "subscriptionId": id(3), "eventId": id(4), "publishedAt": "2026-05-01T10:00:00.000Z"});
    assert_eq!(shown, [expected]);
}

#[tokio::test]
async fn explains_the_dead_letters_of_each_queue() {
    let mut world = world().await;
    let write = json!({"requestId": Uuid::now_v7(), "caller": batch_meta(&world).await["caller"], "publishedAt":
        "2026-05-01T10:00:00Z", "deadline": "2026-05-01T10:00:10Z", "target": "newLead"});
    world.queues.publish_message("records", &QueuedMessage::new(b"{}").with_meta("ana@example.com")).await;
    world.queues.publish_message("crm", &QueuedMessage::new(b"ana@example.com")).await;
    until_dead(&world, "records", 1).await;
    until_dead(&world, "crm", 1).await;
    world.end_workers().await;
    // As if every worker that consumed it had crashed.
    world.queues.publish_message("records", &QueuedMessage::new(b"{}").with_meta(&write.to_string())).await;
    let times = world.queues.exhaust_deliveries("records").await;
    assert!(times >= 20, "{times}");
    until_dead(&world, "records", 2).await;

    let whys = async |queue: &str| -> Vec<String> {
        let shown = world.connectctl.list(&["queue", "show", queue, "--dead"]).await;
        assert!(!shown.iter().any(|letter| letter.to_string().contains("ana@")), "{shown:?}");
        shown.iter().map(|letter| text(&letter["why"]).to_owned()).collect()
    };
    let expected = [
        "cannot be parsed as an action, failed with an internal error, or has no MAC although CONNECT_CRM_UNSIGNED is refuse",
    ];
    assert_eq!(whys("crm").await, expected);
    let of_records =
        ["its metadata cannot be parsed", "delivered too often without an ack: its consumers disconnected each time"];
    assert_eq!(whys("records").await, of_records);
}

#[tokio::test]
async fn drops_dead_letters_only_with_confirmation() {
    let world = world().await;
    world.queues.publish_all("records", &poison(300)).await;
    until_dead(&world, "records", 300).await;
    world.connectctl.assert_refusal(&["queue", "drop", "records", "--dead"], "--yes").await;
    until_dead(&world, "records", 300).await;
    let drop = ["queue", "drop", "records", "--dead", "--yes"];
    assert_eq!(world.connectctl.json(&drop).await, json!({"dropped": 300}));
    until_dead(&world, "records", 0).await;
    assert_eq!(world.connectctl.json(&drop).await, json!({"dropped": 0}));
}

#[tokio::test]
async fn asks_for_confirmation_on_a_terminal() {
    let world = world().await;
    world.queues.publish_all("events", &poison(3)).await;
    until_dead(&world, "events", 3).await;
    let drop_with_answer = async |answer: &str| {
        let drop = "script --quiet --return --command 'connectctl queue drop events --dead' /dev/null";
        let settings: Vec<_> =
            world.settings().iter().cloned().chain([("TERM".to_owned(), "xterm".to_owned())]).collect();
        let ran = CommandOutput::bash(&format!("echo {answer} | {drop}"), &settings).await;
        assert!(ran.output.contains("to drop: 3. Their content is lost for good."), "{ran:?}");
        ran
    };
    for answer in ["n", "''", "Yes!"] {
        let ran = drop_with_answer(answer).await;
        assert!(ran.code == Some(1) && ran.output.contains("nothing is dropped"), "{ran:?}");
        until_dead(&world, "events", 3).await;
    }
    assert_eq!(drop_with_answer("y").await.code, Some(0));
    until_dead(&world, "events", 0).await;
}
