//! `delivery summary`.

use super::{deliveries, subscribe, world};
use crate::connectctl::fields;
use serde_json::json;

#[tokio::test]
async fn lists_subscriptions_with_a_backlog_of_all_tenants_worst_first() {
    let (world, acme) = world().await;
    world.add_tenant("zeta").await;
    let (zeta, idle) = (subscribe(&world, "zeta").await, subscribe(&world, "zeta").await);
    deliveries(&world, "acme", acme, "pending", 5, "2026-05-01T10:00:00Z").await;
    deliveries(&world, "zeta", zeta, "pending", 2, "2026-05-01T11:00:00Z").await;
    deliveries(&world, "zeta", zeta, "dead", 3, "2026-05-01T10:30:00Z").await;
    deliveries(&world, "zeta", idle, "delivered", 1, "2026-05-01T10:00:00Z").await;
    let failed_once = "UPDATE deliveries SET attempts = 1 WHERE subscription_id = $1 AND state = 'pending'";
    world.database.connect().await.execute(failed_once, &[&zeta]).await.expect("rows");

    let listed = world.connectctl.list(&["delivery", "summary"]).await;
    let counts = |at: usize| {
        let backlog = &listed[at];
        ["tenant", "subscriptionId", "pending", "retried", "dead", "oldestAt"]
            .map(|name| backlog[name].clone())
    };
    assert_eq!(listed.len(), 2, "{listed:?}");
    let of_zeta =
        [json!("zeta"), json!(zeta), json!(2), json!(2), json!(3), json!("2026-05-01T10:30:00.000Z")];
    assert_eq!(counts(0), of_zeta);
    let of_acme =
        [json!("acme"), json!(acme), json!(5), json!(0), json!(0), json!("2026-05-01T10:00:00.000Z")];
    assert_eq!(counts(1), of_acme);
    let expected = "dead oldestAt pausedAt pending retried subscriptionId tenant url";
    assert_eq!(fields(&listed[0]).join(" "), expected);
    let table = world.connectctl.run(&["delivery", "summary"]).await;
    assert!(table.output.contains("zeta") && table.output.contains("https://1.1.1.1/hooks"), "{table:?}");
}
