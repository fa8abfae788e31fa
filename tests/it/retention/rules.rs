//! What each rule removes and keeps, at its bound.

use super::{Webhook, days_ago, id_at, of, tenant};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use tests::{Connectctl, TestDatabase};

/// Far more than a test takes.
const MARGIN: TimeDelta = TimeDelta::minutes(10);

fn connectctl(database: &TestDatabase) -> Connectctl {
    Connectctl::for_database(database.url())
}

#[tokio::test]
async fn settled_deliveries_expire_with_their_attempts_and_their_event() {
    let database = TestDatabase::new().await;
    let mut webhooks = Vec::new();
    for state in ["delivered", "dropped"] {
        let (old, recent) = (days_ago(30) - MARGIN, days_ago(30) + MARGIN);
        webhooks.push((Webhook::write(&database, state, old, old).await, [0, 0, 0]));
        webhooks.push((Webhook::write(&database, state, recent, recent).await, [1, 1, 2]));
    }
    let plan = connectctl(&database).list(&["retention", "plan"]).await;
    let due = ["outbox", "deliveries", "attempts"].map(|what| of(&plan, what, "due").clone());
    assert_eq!(due, [json!(2), json!(2), json!(4)], "{plan:?}");
    assert_eq!(of(&plan, "deliveries", "keep"), "30d");
    for (webhook, _) in &webhooks {
        assert_eq!(webhook.rows(&database).await, [1, 1, 2], "a plan removes nothing");
    }
    let removed = connectctl(&database).list(&["retention", "run"]).await;
    let counts = ["outbox", "deliveries", "attempts"].map(|what| of(&removed, what, "removed").clone());
    assert_eq!(counts, due, "{removed:?}");
    for (webhook, left) in webhooks {
        assert_eq!(webhook.rows(&database).await, left);
    }
}

#[tokio::test]
async fn unfinished_and_dead_lettered_deliveries_never_expire() {
    let database = TestDatabase::new().await;
    let old = days_ago(700);
    for state in ["pending", "dead"] {
        let webhook = Webhook::write(&database, state, old, old).await;
        let removed = connectctl(&database).list(&["retention", "run"]).await;
        assert_eq!(of(&removed, "deliveries", "removed"), 0);
        assert_eq!(webhook.rows(&database).await, [1, 1, 2], "{state}: a replay needs its event");
        // It expires once it has been settled.
        database.execute("UPDATE deliveries SET state = 'delivered', next_attempt_at = NULL").await;
        connectctl(&database).list(&["retention", "run"]).await;
        assert_eq!(webhook.rows(&database).await, [0, 0, 0], "{state}");
    }
}

#[tokio::test]
async fn a_delivery_that_was_replayed_is_kept_from_its_last_attempt_on() {
    let database = TestDatabase::new().await;
    let (old, bound) = (days_ago(300), days_ago(30));
    let recent = Webhook::write(&database, "delivered", old, bound + MARGIN).await;
    let expired = Webhook::write(&database, "delivered", old, bound - MARGIN).await;
    let plan = connectctl(&database).list(&["retention", "plan"]).await;
    assert_eq!((of(&plan, "deliveries", "due"), of(&plan, "outbox", "due")), (&json!(1), &json!(1)));
    connectctl(&database).list(&["retention", "run"]).await;
    assert_eq!((recent.rows(&database).await, expired.rows(&database).await), ([1, 1, 2], [0, 0, 0]));
}

#[tokio::test]
async fn an_event_stays_until_its_last_delivery_is_removed() {
    let database = TestDatabase::new().await;
    let old = days_ago(60);
    let webhook = Webhook::write(&database, "delivered", old, old).await;
    let other = "INSERT INTO deliveries (tenant_id, delivery_id, event_id, subscription_id, state, created_at, number)
        SELECT tenant_id, $2, $1, $1, 'dead', now(), 1 FROM tenants WHERE slug = 'acme'";
    let client = database.connect().await;
    client.execute(other, &[&webhook.event, &id_at(old)]).await.expect("another delivery of the event");
    connectctl(&database).list(&["retention", "run"]).await;
    assert_eq!(webhook.rows(&database).await, [1, 0, 0]);
    client.execute("UPDATE deliveries SET state = 'dropped'", &[]).await.expect("an update");
    connectctl(&database).list(&["retention", "run"]).await;
    assert_eq!(webhook.rows(&database).await, [0, 0, 0]);
}

#[tokio::test]
async fn events_that_wait_for_their_fan_out_never_expire() {
    let database = TestDatabase::new().await;
    let (old, tenant) = (days_ago(60), tenant(&database).await);
    let insert = "INSERT INTO outbox (tenant_id, event_id, event_type, origin, envelope, created_at)
        VALUES ($1, $2, 'lead.assigned', 'crm', '{}', $3)";
    let wait = "INSERT INTO outbox_pending (tenant_id, event_id, created_at) VALUES ($1, $2, $3)";
    let client = database.connect().await;
    let (fanned_out, waiting) = (id_at(old), id_at(old));
    for event in [fanned_out, waiting] {
        client.execute(insert, &[&tenant, &event, &old]).await.expect("an event");
    }
    client.execute(wait, &[&tenant, &waiting, &old]).await.expect("a pending event");
    let plan = connectctl(&database).list(&["retention", "plan"]).await;
    assert_eq!(of(&plan, "outbox", "due"), 1);
    let removed = connectctl(&database).list(&["retention", "run"]).await;
    assert_eq!(of(&removed, "outbox", "removed"), 1);
    assert_eq!(database.count("SELECT count(*) FROM outbox JOIN outbox_pending USING (event_id)").await, 1);
}

/// Inserts a row of `at`. Its parameters are the tenant, a fresh id, and the time.
async fn insert(database: &TestDatabase, statement: &str, at: DateTime<Utc>) {
    let (client, tenant) = (database.connect().await, tenant(database).await);
    client.execute(statement, &[&tenant, &id_at(at), &at]).await.expect("a row");
}

const IDEMPOTENCY_KEY: &str = "INSERT INTO idempotency_keys
    (tenant_id, key_prefix, idempotency_key, request_hash, status, body, created_at)
    VALUES ($1, 'ck_1', ($2::uuid)::text, '\\x00', 201, '{}', $3)";
const NOTIFICATION: &str = "INSERT INTO notifications (tenant_id, notification_id, at, recipient, kind, text)
    VALUES ($1, $2, $3, 'ada@acme.test', 'lead_assigned', 'x')";
const LEDGER_ENTRY: &str = "INSERT INTO event_ledger
    (tenant_id, event_id, event_type, key_prefix, request_id, ordinal, applied_at, warnings)
    VALUES ($1, ($2::uuid)::text, 'contact.identified', 'ck_1', $2, 0, $3, '{}')";

#[tokio::test]
async fn other_rows_expire_by_their_own_time() {
    let database = TestDatabase::new().await;
    let tables = [
        ("idempotency_keys", IDEMPOTENCY_KEY, 7),
        ("notifications", NOTIFICATION, 90),
        ("event_ledger", LEDGER_ENTRY, 120),
    ];
    for (_, statement, days) in tables {
        for at in [days_ago(days) - MARGIN, days_ago(days) + MARGIN, days_ago(0)] {
            insert(&database, statement, at).await;
        }
    }
    let connectctl = connectctl(&database).and("CONNECT_RETENTION_LEDGER", "120d");
    let plan = connectctl.list(&["retention", "plan"]).await;
    let removed = connectctl.list(&["retention", "run"]).await;
    for (table, _, days) in tables {
        assert_eq!(of(&plan, table, "keep"), &json!(format!("{days}d")));
        assert_eq!(
            (of(&plan, table, "due"), of(&removed, table, "removed")),
            (&json!(1), &json!(1)),
            "{table}"
        );
        assert_eq!(database.count(&format!("SELECT count(*) FROM {table}")).await, 2, "{table}");
    }
    let again = connectctl.list(&["retention", "run"]).await;
    assert!(again.iter().all(|report| report["removed"] == 0), "{again:?}");
}

#[tokio::test]
async fn what_is_off_is_kept_and_the_ledger_is_off_by_default() {
    let database = TestDatabase::new().await;
    let old = days_ago(3_000);
    let webhook = Webhook::write(&database, "delivered", old, old).await;
    for statement in [IDEMPOTENCY_KEY, NOTIFICATION, LEDGER_ENTRY] {
        insert(&database, statement, old).await;
    }
    let mut kept = connectctl(&database);
    for what in ["DELIVERIES", "IDEMPOTENCY", "NOTIFICATIONS", "AUDIT", "REFUSALS"] {
        kept = kept.and(&format!("CONNECT_RETENTION_{what}"), "off");
    }
    let plan = kept.list(&["retention", "plan"]).await;
    assert!(plan.iter().all(|report| report["due"] == 0 && report["keep"] == "off"), "{plan:?}");
    let removed = kept.list(&["retention", "run"]).await;
    assert!(removed.iter().all(|report| report["removed"] == 0), "{removed:?}");
    assert_eq!(webhook.rows(&database).await, [1, 1, 2]);

    let removed = connectctl(&database).list(&["retention", "run"]).await;
    assert_eq!(
        (of(&removed, "notifications", "removed"), of(&removed, "event_ledger", "removed")),
        (&json!(1), &json!(0))
    );
    assert_eq!(
        database.count("SELECT count(*) FROM event_ledger").await,
        1,
        "duplicates have no horizon (D31)"
    );
}

#[tokio::test]
async fn many_rows_of_one_time_are_removed_in_several_steps() {
    let database = TestDatabase::new().await;
    database
        .execute(
            "INSERT INTO notifications (tenant_id, notification_id, at, recipient, kind, text)
             SELECT tenant_id, gen_random_uuid(), now() - interval '100 days', 'ada@acme.test', 'lead_assigned', 'x'
             FROM tenants, generate_series(1, 1700) WHERE slug = 'acme'",
        )
        .await;
    let removed = connectctl(&database).list(&["retention", "run"]).await;
    assert_eq!(of(&removed, "notifications", "removed"), 1_700);
}

#[tokio::test]
async fn connectctl_refuses_too_short_periods_and_removes_nothing() {
    let database = TestDatabase::new().await;
    let ledger = "INSERT INTO event_ledger
            (tenant_id, event_id, event_type, key_prefix, request_id, ordinal, applied_at, warnings)
        SELECT tenant_id, 'old', 'contact.identified', 'ck_1', tenant_id, 0, now() - interval '1000 days', '{}' FROM tenants";
    database.execute(ledger).await;
    for (name, value, line) in [
        ("CONNECT_RETENTION_LEDGER", "89d", "must be off or at least 90d"),
        ("CONNECT_RETENTION_IDEMPOTENCY", "23h", "must be off or at least 1d"),
    ] {
        let connectctl = Connectctl::for_database(database.url()).and(name, value);
        for command in ["plan", "run"] {
            assert!(connectctl.refusal(&["retention", command]).await.contains(line));
        }
    }
    assert!(database.count("SELECT count(*) FROM event_ledger WHERE event_id = 'old'").await > 0);
}
