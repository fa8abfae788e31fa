//! Replay jobs that no dispatcher executes: `delivery replay` of a filter, and `replay`.

use super::{count, deliveries, subscribe, world};
use crate::connectctl::fields;
use serde_json::json;
use tests::text;
use uuid::Uuid;

#[tokio::test]
async fn a_job_is_stored_listed_and_stopped_without_a_broker_and_a_dispatcher() {
    let (world, subscription) = world().await;
    deliveries(&world, "acme", subscription, "dead", 3, "2026-05-01T10:00:00Z").await;
    let connectctl = world.connectctl.without("AMQP_URL");
    let options = ["--state", "dead", "--from", "2026-05-01T10:00:01Z", "--rate", "7", "--no-wait"];
    let created =
        connectctl.json(&[&["delivery", "replay", "--tenant", "acme"], &options[..]].concat()).await;
    let expected =
        "createdAt endedAt eventType id matched occurred perSecond replayed state states subscriptionId";
    assert_eq!(fields(&created).join(" "), expected);
    assert_eq!(
        (&created["matched"], &created["replayed"], &created["perSecond"]),
        (&json!(2), &json!(0), &json!(7))
    );
    assert_eq!(created["occurred"]["from"], "2026-05-01T10:00:01.000Z");
    assert_eq!(created["states"], json!(["dead"]));
    let id = text(&created["id"]);
    assert_eq!(
        connectctl.list(&["replay", "list", "--tenant", "acme"]).await,
        std::slice::from_ref(&created)
    );
    world.add_tenant("zeta").await;
    assert_eq!(connectctl.list(&["replay", "list", "--tenant", "zeta"]).await, [json!(null); 0]);
    let stopped = connectctl.json(&["replay", "stop", id]).await;
    assert_eq!((&stopped["state"], &stopped["endedAt"]), (&json!("stopping"), &json!(null)));
    assert!(connectctl.refusal(&["replay", "stop", id]).await.contains("is not running any more"));
    assert_eq!(connectctl.json(&["replay", "show", id]).await, stopped);
    assert_eq!(count(&world, "dead").await, 3);
    for unknown in [Uuid::now_v7().to_string(), "no id".to_owned()] {
        for (group, command, what) in [
            ("replay", "show", "replay job"),
            ("replay", "stop", "replay job"),
            ("delivery", "show", "delivery"),
            ("delivery", "replay", "delivery"),
        ] {
            let refusal = connectctl.refusal(&[group, command, &unknown]).await;
            assert!(refusal.contains(&format!("{what} {unknown:?} does not exist")), "{refusal}");
        }
    }
}

#[tokio::test]
async fn a_tenant_has_few_jobs_at_once_and_only_its_own_subscriptions() {
    let (world, subscription) = world().await;
    world.add_tenant("zeta").await;
    let foreign = subscribe(&world, "zeta").await.to_string();
    deliveries(&world, "acme", subscription, "dead", 1, "2026-05-01T10:00:00Z").await;
    let create = ["delivery", "replay", "--tenant", "acme", "--state", "dead", "--no-wait"];
    for _ in 0..5 {
        world.connectctl.json(&create).await;
    }
    let refusal = world.connectctl.refusal(&create).await;
    assert!(refusal.contains("5 replay jobs that have not ended"), "{refusal}");
    let of_zeta = ["delivery", "replay", "--tenant", "zeta", "--state", "dead", "--dry-run"];
    assert_eq!(world.connectctl.json(&of_zeta).await, json!({"matched": 0, "replayed": 0}));
    let reversed = ["--from", "2026-05-02T00:00:00Z", "--to", "2026-05-01T00:00:00Z"];
    let reversed = [&["delivery", "replay", "--tenant", "acme"], &reversed[..]].concat();
    assert!(world.connectctl.refusal(&reversed).await.contains("before"));
    let other = ["delivery", "replay", "--tenant", "acme", "--subscription", &foreign, "--dry-run"];
    let refusal = world.connectctl.refusal(&other).await;
    assert!(refusal.contains(&format!("subscription {foreign:?} does not exist")), "{refusal}");
}
