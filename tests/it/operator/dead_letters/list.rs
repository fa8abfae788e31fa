//! `queue list`.

use super::{poison, until_dead, world};
use serde_json::{Value, json};
use tests::{Connectctl, World};

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
    assert_eq!(
        find(&listed, "events"),
        &json!({"name": "events", "depth": 0, "consumers": 2, "dead": 3, "oldest": null})
    );
    assert_eq!(
        find(&listed, "events.dead"),
        &json!({"name": "events.dead", "depth": 3, "consumers": 0, "dead": null, "oldest": null})
    );
    assert_eq!(
        find(&listed, "webhooks.dead"),
        &json!({"name": "webhooks.dead", "depth": 1, "consumers": 0, "dead": null, "oldest": null})
    );
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
        let refusal = connectctl.refusal(change).await;
        assert!(refusal.contains("DATABASE_URL"), "{refusal}");
        world.connectctl.json(change).await;
    }
}

#[tokio::test]
async fn a_wrong_prefix_is_reported_and_creates_no_queues() {
    let world = World::with().ingests(0).workers(0).start().await;
    let prefix = format!("{}x", world.queues.prefix());
    let connectctl = world.connectctl.clone().and("CONNECT_QUEUE_PREFIX", &prefix);
    let listed = connectctl.list(&["queue", "list"]).await;
    assert_eq!(
        find(&listed, "events"),
        &json!({"name": "events", "depth": null, "consumers": null, "dead": null, "oldest": null})
    );
    for command in [
        ["show", "events", "--dead"].as_slice(),
        &["requeue", "crm", "--dead"],
        &["drop", "records", "--dead", "--yes"],
    ] {
        let refusal = connectctl.refusal(&[&["queue"], command].concat()).await;
        assert!(
            refusal.contains(&format!("the queue {prefix}.{}.dead does not exist", command[1])),
            "{refusal}"
        );
    }
    let queues = tests::Queues::new(world.queues.url(), prefix);
    for queue in ["events", "events.dead", "crm.dead", "records.dead"] {
        assert!(!queues.exists(queue).await, "{queue}");
    }
}
