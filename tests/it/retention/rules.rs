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
async fn webhooks_expire_with_their_attempts_once_they_have_been_settled_for_long() {
    let database = TestDatabase::new().await;
    let (bound, gone, kept) = (days_ago(30), [0, 0, 0], [1, 1, 2]);
    let (old, recent) = (bound - MARGIN, bound + MARGIN);
    let mut webhooks = Vec::new();
    for (state, at, attempted, left) in [
        ("delivered", old, old, gone),
        ("delivered", recent, recent, kept),
        ("dropped", old, old, gone),
        ("dropped", recent, recent, kept),
        // What was replayed is kept from its last attempt on.
        ("delivered", days_ago(300), old, gone),
        ("delivered", days_ago(300), recent, kept),
        // A replay needs its event.
        ("dead", days_ago(700), days_ago(700), kept),
        ("pending", days_ago(700), days_ago(700), kept),
    ] {
        webhooks.push((Webhook::write(&database, state, at, attempted).await, left));
    }
    let plan = connectctl(&database).list(&["retention", "plan"]).await;
    let due = ["outbox", "deliveries", "attempts"].map(|what| of(&plan, what, "due").clone());
    assert_eq!(due, [json!(3), json!(3), json!(6)], "{plan:?}");
    assert_eq!(of(&plan, "deliveries", "keep"), "30d");
    for (webhook, _) in &webhooks {
        assert_eq!(webhook.rows(&database).await, kept, "a plan removes nothing");
    }
    let removed = connectctl(&database).list(&["retention", "run"]).await;
    let counts = ["outbox", "deliveries", "attempts"].map(|what| of(&removed, what, "removed").clone());
    assert_eq!(counts, due, "{removed:?}");
    for (number, (webhook, left)) in webhooks.iter().enumerate() {
        assert_eq!(webhook.rows(&database).await, *left, "{number}");
    }
    database.execute("UPDATE deliveries SET state = 'delivered', next_attempt_at = NULL").await;
    connectctl(&database).list(&["retention", "run"]).await;
    for (webhook, _) in &webhooks[6..] {
        assert_eq!(webhook.rows(&database).await, gone, "it has been settled");
    }
}

#[tokio::test]
async fn an_event_stays_while_it_waits_for_its_fan_out_and_until_its_last_delivery_is_removed() {
    let database = TestDatabase::new().await;
    let (old, tenant) = (days_ago(60), tenant(&database).await);
    let webhook = Webhook::write(&database, "delivered", old, old).await;
    let other = "INSERT INTO deliveries (tenant_id, delivery_id, event_id, subscription_id, state, created_at, number)
        VALUES ($1, $2, $3, $3, 'dead', now(), 1)";
    let client = database.connect().await;
    client.execute(other, &[&tenant, &id_at(old), &webhook.event]).await.expect("another delivery of the event");
    let insert = "INSERT INTO outbox (tenant_id, event_id, event_type, origin, envelope, created_at)
        VALUES ($1, $2, 'lead.assigned', 'crm', '{}', $3)";
    let wait = "INSERT INTO outbox_pending (tenant_id, event_id, created_at) VALUES ($1, $2, $3)";
    let (fanned_out, waiting) = (id_at(old), id_at(old));
    for event in [fanned_out, waiting] {
        client.execute(insert, &[&tenant, &event, &old]).await.expect("an event");
    }
    client.execute(wait, &[&tenant, &waiting, &old]).await.expect("a pending event");
    let plan = connectctl(&database).list(&["retention", "plan"]).await;
    assert_eq!(of(&plan, "outbox", "due"), 1, "the one that was fanned out");
    let removed = connectctl(&database).list(&["retention", "run"]).await;
    assert_eq!(of(&removed, "outbox", "removed"), 1);
    assert_eq!(database.count("SELECT count(*) FROM outbox JOIN outbox_pending USING (event_id)").await, 1);
    assert_eq!(webhook.rows(&database).await, [1, 0, 0]);
    database.execute("UPDATE deliveries SET state = 'dropped'").await;
    connectctl(&database).list(&["retention", "run"]).await;
    assert_eq!(webhook.rows(&database).await, [0, 0, 0]);
}

/// Inserts a row of `at`. Its parameters are the tenant, a fresh id, and the time.
async fn insert(database: &TestDatabase, statement: &str, at: DateTime<Utc>) {
    let (client, tenant) = (database.connect().await, tenant(database).await);
    client.execute(statement, &[&tenant, &id_at(at), &at]).await.expect("a row");
}

const IDEMPOTENCY_KEY: &str = "INSERT INTO idempotency_keys
    (tenant_id, key_prefix, idempotency_key, request_hash, status, etag, body, created_at)
    VALUES ($1, 'ck_1', ($2::uuid)::text, '\\x00', 201, '', '{}', $3)";
const NOTIFICATION: &str = "INSERT INTO notifications (tenant_id, notification_id, at, recipient, kind, text)
    VALUES ($1, $2, $3, 'ada@acme.test', 'lead_assigned', 'x')";
const LEDGER_ENTRY: &str = "INSERT INTO event_ledger
    (tenant_id, event_id, event_type, key_prefix, request_id, ordinal, applied_at, warnings)
    VALUES ($1, ($2::uuid)::text, 'contact.identified', 'ck_1', $2, 0, $3, '{}')";

#[tokio::test]
async fn other_rows_expire_by_their_own_time_unless_that_is_off() {
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
    let of_audit = days_ago(365);
    crate::connectctl::audit::add_records(&database, of_audit - MARGIN, 700).await;
    crate::connectctl::audit::add_records(&database, of_audit + MARGIN, 1).await;
    let old = days_ago(3_000);
    let webhook = Webhook::write(&database, "delivered", old, old).await;
    let connectctl = connectctl(&database);
    let periods =
        [("LEDGER", "89d", "90d"), ("IDEMPOTENCY", "23h", "1d"), ("AUDIT", "23h", "1d"), ("REFUSALS", "23h", "1d")];
    for (name, value, least) in periods {
        let too_short = connectctl.clone().and(&format!("CONNECT_RETENTION_{name}"), value);
        for command in ["plan", "run"] {
            too_short.assert_refusal(&["retention", command], &format!("must be off or at least {least}")).await;
        }
    }
    let mut kept = connectctl.clone();
    for what in ["DELIVERIES", "IDEMPOTENCY", "NOTIFICATIONS", "AUDIT", "REFUSALS"] {
        kept = kept.and(&format!("CONNECT_RETENTION_{what}"), "off");
    }
    let plan = kept.list(&["retention", "plan"]).await;
    assert!(plan.iter().all(|report| report["due"] == 0 && report["keep"] == "off"), "{plan:?}");
    let removed = kept.list(&["retention", "run"]).await;
    assert!(removed.iter().all(|report| report["removed"] == 0), "{removed:?}");
    assert_eq!(webhook.rows(&database).await, [1, 1, 2]);
    let plan = connectctl.list(&["retention", "plan"]).await;
    assert_eq!(of(&plan, "event_ledger", "keep"), "off", "duplicates have no horizon by default (D31)");

    // Many of one time, which are removed in several steps.
    let insert = "INSERT INTO notifications (tenant_id, notification_id, at, recipient, kind, text)
     SELECT tenant_id, gen_random_uuid(), now() - interval '100 days', 'ada@acme.test', 'lead_assigned', 'x'
     FROM tenants, generate_series(1, 1700) WHERE slug = 'acme'";
    database.execute(insert).await;
    let connectctl = connectctl.and("CONNECT_RETENTION_LEDGER", "120d");
    let plan = connectctl.list(&["retention", "plan"]).await;
    let removed = connectctl.list(&["retention", "run"]).await;
    for (table, _, days) in tables {
        let due = json!(if table == "notifications" { 1_701 } else { 1 });
        assert_eq!(of(&plan, table, "keep"), &json!(format!("{days}d")));
        assert_eq!((of(&plan, table, "due"), of(&removed, table, "removed")), (&due, &due), "{table}");
        assert_eq!(database.count(&format!("SELECT count(*) FROM {table}")).await, 2, "{table}");
    }
    let audit = ["due", "keep"].map(|field| of(&plan, "audit_records", field).clone());
    assert_eq!((audit, of(&removed, "audit_records", "removed")), ([json!(700), json!("365d")], &json!(700)));
    let left = |action| format!("SELECT count(*) FROM audit_records WHERE action = '{action}'");
    assert_eq!(database.count(&left("test.action")).await, 1);
    assert_eq!(database.count(&left("retention.run")).await, 2, "recent records stay");
    let again = connectctl.list(&["retention", "run"]).await;
    assert!(again.iter().all(|report| report["removed"] == 0), "{again:?}");
}
