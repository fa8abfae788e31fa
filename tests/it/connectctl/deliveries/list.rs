//! `delivery list` and `delivery show`.

use super::{deliveries, joined, subscribe, tenant, world};
use crate::connectctl::{fields, is_time};
use serde_json::{Value, json};
use tests::text;
use uuid::Uuid;

fn ids(listed: &[Value]) -> Vec<Uuid> {
    listed.iter().map(|delivery| text(&delivery["id"]).parse().expect("a UUID")).collect()
}

#[tokio::test]
async fn lists_deliveries_with_their_attempts_newest_last() {
    let (world, subscription) = joined().await;
    let newer = deliveries(&world, "acme", subscription, "dead", 1, "2026-05-02T10:00:00Z").await;
    let older = deliveries(&world, "acme", subscription, "delivered", 1, "2026-05-01T10:00:00Z").await;
    let attempts = "INSERT INTO attempts (tenant_id, delivery_id, attempt, at, status, error, response, duration_ms)
        SELECT $1, $2, unnest(ARRAY[2, 1]), unnest(ARRAY['2026-05-02T10:00:31Z', '2026-05-02T10:00:00Z']::timestamptz[]),
            unnest(ARRAY[NULL, 500]), unnest(ARRAY['timeout', NULL]), unnest(ARRAY[NULL, 'Oops']), unnest(ARRAY[10000, 12])";
    let acme = tenant(&world, "acme").await;
    let client = world.database.connect().await;
    client.execute(attempts, &[&acme, &newer[0]]).await.expect("attempts");

    // As the dispatcher records a delivery that succeeded at once.
    let at_once = "UPDATE deliveries SET attempts = 1, last_at = '2026-05-01T10:00:01Z', last_status = 204, last_duration_ms = 7
        WHERE delivery_id = $1";
    client.execute(at_once, &[&older[0]]).await.expect("a row");

    let listed = world.connectctl.list(&["delivery", "list", "--tenant", "acme"]).await;
    assert_eq!(ids(&listed), [older[0], newer[0]]);
    let only = json!([{"at": "2026-05-01T10:00:01.000Z", "status": 204, "error": null, "durationMs": 7}]);
    assert_eq!(listed[0]["attempts"], only);
    let dead = &listed[1];
    let expected = "attempts createdAt eventId eventType id nextAttemptAt origin state subscriptionId";
    assert_eq!(fields(dead).join(" "), expected);
    assert_eq!(
        (&dead["eventType"], &dead["state"], &dead["subscriptionId"], &dead["nextAttemptAt"]),
        (&json!("lead.assigned"), &json!("dead"), &json!(subscription), &json!(null))
    );
    assert!(is_time(&dead["createdAt"]), "{dead}");
    let expected = json!([
        {"at": "2026-05-02T10:00:00.000Z", "status": 500, "error": null, "durationMs": 12},
        {"at": "2026-05-02T10:00:31.000Z", "status": null, "error": "timeout", "durationMs": 10_000}]);
    assert_eq!(dead["attempts"], expected);

    let shown = world.connectctl.json(&["delivery", "show", &newer[0].to_string()]).await;
    assert_eq!((&shown["id"], &shown["origin"]), (&json!(newer[0]), &json!("crm")));
    assert_eq!(shown["attempts"][0]["response"], "Oops", "the body that the receiver sent");
    let table = world.connectctl.run(&["delivery", "show", &newer[0].to_string()]).await;
    assert!(table.code == Some(0) && table.output.contains("Oops"), "{table:?}");
}

#[tokio::test]
async fn filters_the_list_and_shows_one_tenant_only() {
    let (world, subscription) = joined().await;
    world.add_tenant("zeta").await;
    let (other, foreign) = (subscribe(&world, "acme").await, subscribe(&world, "zeta").await);
    let pending = deliveries(&world, "acme", subscription, "pending", 2, "2026-05-01T10:00:00Z").await;
    let dropped = deliveries(&world, "acme", other, "dropped", 1, "2026-05-01T11:00:00Z").await;
    deliveries(&world, "zeta", foreign, "dead", 1, "2026-05-01T12:00:00Z").await;
    let list = async |options: &[&str]| {
        ids(&world.connectctl.list(&[&["delivery", "list", "--tenant", "acme"], options].concat()).await)
    };
    assert_eq!(list(&[]).await, [pending[0], pending[1], dropped[0]]);
    assert_eq!(list(&["--state", "pending"]).await, pending);
    assert!(list(&["--state", "dead"]).await.is_empty());
    assert_eq!(list(&["--subscription", &other.to_string()]).await, dropped);
    assert_eq!(list(&["--limit", "2"]).await, [pending[1], dropped[0]], "the newest");
    let limited =
        world.connectctl.run(&["delivery", "list", "--tenant", "acme", "--limit", "2", "--json"]).await;
    assert!(limited.errors.contains("only the newest 2"), "{limited:?}");
    for unknown in [foreign.to_string(), Uuid::now_v7().to_string(), "no id".to_owned()] {
        let list = ["delivery", "list", "--tenant", "acme", "--subscription", &unknown];
        let refusal = world.connectctl.refusal(&list).await;
        assert!(
            refusal.contains(&format!("subscription {unknown:?} does not exist in this tenant")),
            "{refusal}"
        );
    }
}

#[tokio::test]
async fn finds_the_deliveries_of_a_quiet_subscription_behind_those_of_a_busy_one() {
    let (world, busy) = world().await;
    let quiet = subscribe(&world, "acme").await;
    let old = deliveries(&world, "acme", quiet, "delivered", 1, "2026-05-01T10:00:00Z").await;
    // More than a page reads, all newer.
    let many = "INSERT INTO deliveries (tenant_id, delivery_id, event_id, subscription_id, state, created_at, number)
        SELECT $1, (lpad(to_hex(1790000000000 + n), 12, '0') || '70008000000000000000')::uuid, $2, $2, 'delivered', now(), n
        FROM generate_series(1, 50001) n";
    let acme = tenant(&world, "acme").await;
    world.database.connect().await.execute(many, &[&acme, &busy]).await.expect("rows");
    let list = ["delivery", "list", "--tenant", "acme", "--subscription", &quiet.to_string()];
    assert_eq!(ids(&world.connectctl.list(&list).await), old);
}
