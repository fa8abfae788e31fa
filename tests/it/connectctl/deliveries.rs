//! `delivery` and `replay`: on rows as the dispatcher writes them, without a dispatcher (D26).

use crate::connectctl::{Listener, fields, is_time};
use chrono::DateTime;
use serde_json::{Value, json};
use tests::{World, text};
use uuid::{Timestamp, Uuid};

/// A world without programs, and a subscription of `acme`.
async fn world() -> (World, Uuid) {
    let world = World::with().ingests(0).workers(0).start().await;
    let subscription = subscribe(&world, "acme").await;
    (world, subscription)
}

/// The shared world, with a subscription of `acme`.
async fn joined() -> (World, Uuid) {
    let world = World::shared().await;
    let subscription = subscribe(&world, "acme").await;
    (world, subscription)
}

async fn subscribe(world: &World, tenant: &str) -> Uuid {
    let create = ["subscription", "create", "--tenant", tenant, "--url", "https://1.1.1.1/hooks"];
    let made = world.connectctl.json(&create).await;
    text(&made["id"]).parse().expect("a UUID")
}

pub(crate) async fn tenant(world: &World, slug: &str) -> Uuid {
    let rows = world.database.rows("SELECT tenant_id FROM tenants WHERE slug = $1", &[&tests::slug(slug)]).await;
    text(&rows[0]["tenant_id"]).parse().expect("a UUID")
}

/// Writes `count` deliveries of an tenant in one state, each of an event of its own, made at `created_at` or a second
/// after the one before, as their ids say, too. A finished one has six attempts. Gives their ids, oldest first.
pub(crate) async fn deliveries(
    world: &World, slug: &str, subscription: Uuid, state: &str, count: i32, created_at: &str,
) -> Vec<Uuid> {
    let tenant = tenant(world, slug).await;
    let made = DateTime::parse_from_rfc3339(created_at).expect("a time").timestamp().unsigned_abs();
    let at = |second: i32| Timestamp::from_unix_time(made + u64::from(second.unsigned_abs()), 0, 0, 0);
    let ids: Vec<Uuid> = (0..count).map(|second| Uuid::new_v7(at(second))).collect();
    let events: Vec<Uuid> = (0..count).map(|second| Uuid::new_v7(at(second))).collect();
    let client = world.database.connect().await;
    let outbox = "INSERT INTO outbox (tenant_id, event_id, event_type, origin, envelope, created_at)
        SELECT $1, unnest($2::uuid[]), 'lead.assigned', 'crm', '{}', now()";
    client.execute(outbox, &[&tenant, &events]).await.expect("outbox rows");
    let pending = "INSERT INTO deliveries
            (tenant_id, delivery_id, event_id, subscription_id, state, created_at, next_attempt_at, attempts, number)
        SELECT $1, delivery_id, event_id, $4, $5, $6::text::timestamptz + (at - 1) * interval '1 second',
            CASE WHEN $5 = 'pending' THEN now() END, CASE WHEN $5 = 'pending' THEN 0 ELSE 6 END,
            at + (SELECT count(*) FROM deliveries d WHERE d.subscription_id = $4)
        FROM unnest($2::uuid[], $3::uuid[]) WITH ORDINALITY AS given (delivery_id, event_id, at)";
    client.execute(pending, &[&tenant, &ids, &events, &subscription, &state, &created_at]).await.expect("rows");
    ids
}

async fn row(world: &World, id: Uuid) -> Value {
    let query =
        "SELECT state, attempts, attempts_before, needs_notice, next_attempt_at FROM deliveries WHERE delivery_id = $1";
    let mut rows = world.database.rows(query, &[&id]).await;
    assert_eq!(rows.len(), 1, "delivery {id}");
    rows.remove(0)
}

async fn count(world: &World, state: &str) -> i64 {
    world.database.count(&format!("SELECT count(*) FROM deliveries WHERE state = '{state}'")).await
}

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
    let at_once =
        "UPDATE deliveries SET attempts = 1, last_at = '2026-05-01T10:00:01Z', last_status = 204, last_duration_ms = 7
        WHERE delivery_id = $1";
    client.execute(at_once, &[&older[0]]).await.expect("a row");

    let listed = world.connectctl.list(&["delivery", "list", "--tenant", "acme"]).await;
    assert_eq!(ids(&listed), [older[0], newer[0]]);
    let only = json!([{"at": "2026-05-01T10:00:01.000Z", "status": 204, "error": null, "durationMs": 7}]);
    assert_eq!(listed[0]["attempts"], only);
    let dead = &listed[1];
    let expected = "attempts createdAt eventId eventType id nextAttemptAt number origin state subscriptionId";
    assert_eq!(fields(dead).join(" "), expected);
    let found = (&dead["eventType"], &dead["state"], &dead["subscriptionId"], &dead["nextAttemptAt"]);
    assert_eq!(found, (&json!("lead.assigned"), &json!("dead"), &json!(subscription), &json!(null)));
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
    let limited = world.connectctl.run(&["delivery", "list", "--tenant", "acme", "--limit", "2", "--json"]).await;
    assert!(limited.errors.contains("only the newest 2"), "{limited:?}");
    for unknown in [foreign.to_string(), Uuid::now_v7().to_string(), "no id".to_owned()] {
        let list = ["delivery", "list", "--tenant", "acme", "--subscription", &unknown];
        let refusal = world.connectctl.refusal(&list).await;
        assert!(refusal.contains(&format!("subscription {unknown:?} does not exist in this tenant")), "{refusal}");
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

#[tokio::test]
async fn replaying_a_dead_delivery_restarts_it_under_its_id_without_a_broker() {
    let (world, subscription) = world().await;
    let ids = deliveries(&world, "acme", subscription, "dead", 3, "2026-05-01T10:00:00Z").await;
    world.database.execute("UPDATE deliveries SET needs_notice = true").await;
    let mut listener = Listener::to(&world.database, "connect_deliveries").await;

    let connectctl = world.connectctl.without("AMQP_URL");
    let replayed = connectctl.json(&["delivery", "replay", &ids[1].to_string()]).await;
    assert_eq!((&replayed["id"], &replayed["state"]), (&json!(ids[1]), &json!("pending")));
    assert!(is_time(&replayed["nextAttemptAt"]), "{replayed}");
    let stored = row(&world, ids[1]).await;
    let expected = (&json!(6), &json!(6), &json!(false));
    assert_eq!((&stored["attempts"], &stored["attempts_before"], &stored["needs_notice"]), expected);
    listener.until_notified().await;
    for id in [ids[0], ids[2]] {
        assert_eq!(row(&world, id).await["state"], "dead", "the others stay");
    }
}

#[tokio::test]
async fn replays_a_delivered_delivery_but_no_pending_or_dropped_one_and_none_of_a_removed_subscription() {
    let (world, subscription) = world().await;
    let of = async |state| deliveries(&world, "acme", subscription, state, 1, "2026-05-01T10:00:00Z").await[0];
    let delivered = of("delivered").await;
    assert_eq!(world.connectctl.json(&["delivery", "replay", &delivered.to_string()]).await["state"], "pending");
    for (id, state) in [(delivered, "pending"), (of("pending").await, "pending"), (of("dropped").await, "dropped")] {
        let before = row(&world, id).await;
        let refusal = world.connectctl.refusal(&["delivery", "replay", &id.to_string()]).await;
        let says = format!("connectctl: delivery {id} cannot be replayed: it is {state}");
        let is_sent = refusal.contains(&format!("; next attempt: connectctl delivery show {id}; at once: "));
        assert!(refusal.starts_with(&says) && is_sent == (state == "pending"), "{refusal}");
        assert_eq!(row(&world, id).await, before);
    }
    let dead = of("dead").await;
    // By an operator who was interrupted before the deliveries were dropped.
    world.database.execute("UPDATE subscriptions SET removed_at = now()").await;
    world.connectctl.assert_refusal(&["delivery", "replay", &dead.to_string()], "subscription was removed").await;
    assert_eq!(row(&world, dead).await["state"], "dead");
    let all = world.connectctl.json(&["delivery", "replay", "--dead", "--tenant", "acme"]).await;
    assert_eq!(all, json!({"matched": 0, "replayed": 0}));
}

#[tokio::test]
async fn a_job_is_stored_listed_and_stopped_without_a_broker_and_a_dispatcher() {
    let (world, subscription) = world().await;
    deliveries(&world, "acme", subscription, "dead", 3, "2026-05-01T10:00:00Z").await;
    let connectctl = world.connectctl.without("AMQP_URL");
    let options = ["--state", "dead", "--from", "2026-05-01T10:00:01Z", "--rate", "7", "--no-wait"];
    let created = connectctl.json(&[&["delivery", "replay", "--tenant", "acme"], &options[..]].concat()).await;
    let expected = "createdAt endedAt eventType id matched occurred perSecond replayed state states subscriptionId";
    assert_eq!(fields(&created).join(" "), expected);
    let expected = (&json!(2), &json!(0), &json!(7));
    assert_eq!((&created["matched"], &created["replayed"], &created["perSecond"]), expected);
    assert_eq!(created["occurred"]["from"], "2026-05-01T10:00:01.000Z");
    assert_eq!(created["states"], json!(["dead"]));
    let id = text(&created["id"]);
    let expected = std::slice::from_ref(&created);
    assert_eq!(connectctl.list(&["replay", "list", "--tenant", "acme"]).await, expected);
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
            connectctl.assert_refusal(&[group, command, &unknown], &format!("{what} {unknown:?} does not exist")).await;
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
    world.connectctl.assert_refusal(&create, "5 replay jobs that have not ended").await;
    let of_zeta = ["delivery", "replay", "--tenant", "zeta", "--state", "dead", "--dry-run"];
    assert_eq!(world.connectctl.json(&of_zeta).await, json!({"matched": 0, "replayed": 0}));
    let reversed = ["--from", "2026-05-02T00:00:00Z", "--to", "2026-05-01T00:00:00Z"];
    let reversed = [&["delivery", "replay", "--tenant", "acme"], &reversed[..]].concat();
    assert!(world.connectctl.refusal(&reversed).await.contains("before"));
    let other = ["delivery", "replay", "--tenant", "acme", "--subscription", &foreign, "--dry-run"];
    world.connectctl.assert_refusal(&other, &format!("subscription {foreign:?} does not exist")).await;
}

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
        ["tenant", "subscriptionId", "pending", "retried", "dead", "oldestAt"].map(|name| backlog[name].clone())
    };
    assert_eq!(listed.len(), 2, "{listed:?}");
    let of_zeta = [json!("zeta"), json!(zeta), json!(2), json!(2), json!(3), json!("2026-05-01T10:30:00.000Z")];
    assert_eq!(counts(0), of_zeta);
    let of_acme = [json!("acme"), json!(acme), json!(5), json!(0), json!(0), json!("2026-05-01T10:00:00.000Z")];
    assert_eq!(counts(1), of_acme);
    let expected = "dead oldestAt pausedAt pending retried subscriptionId tenant url";
    assert_eq!(fields(&listed[0]).join(" "), expected);
    let table = world.connectctl.run(&["delivery", "summary"]).await;
    assert!(table.output.contains("zeta") && table.output.contains("https://1.1.1.1/hooks"), "{table:?}");
}
