//! Damaged rows: a delivery that cannot be sent is dead-lettered or waits, and delays no other one of its agency.

use super::OutboundWorld;
use tests::{Behavior, MAX_WAIT, World, eventually, text};

const NO_URL: [&str; 2] = ["dead: the subscription's URL cannot be decrypted or parsed"; 2];
const WAITS: [&str; 2] = ["pending"; 2];
const SENT: [&str; 2] = ["delivered"; 2];

/// What each subscription has: a change of its own row or of its first delivery, and what becomes of its first two deliveries.
const DAMAGE: [(&str, [&str; 2]); 18] = [
    // Its URL is sealed, and is no URL.
    ("subscriptions SET key_prefix = NULL", NO_URL),
    ("subscriptions SET url_sealed = ''", NO_URL),
    ("subscriptions SET url_sealed = substring(url_sealed FOR 20)", NO_URL),
    ("subscriptions SET secret_sealed = ''", WAITS),
    ("subscriptions SET secret_sealed = substring(secret_sealed FOR 20)", WAITS),
    ("subscriptions SET old_secret_sealed = 'x', old_secret_until = 'infinity'", WAITS),
    ("subscriptions SET old_secret_sealed = 'x', old_secret_until = '-infinity'", SENT),
    ("subscriptions SET event_types = '{NULL,\"\",x}'", SENT),
    ("deliveries SET event_id = subscription_id", ["dead: the event is not stored any more", "delivered"]),
    ("deliveries SET number = -9223372036854775808", SENT),
    // Its receiver fails.
    ("deliveries SET attempts = 32767", ["dead"; 2]),
    ("deliveries SET attempts = 32767, attempts_before = -1", SENT),
    ("deliveries SET attempts = -32768, attempts_before = 32767", SENT),
    ("deliveries SET attempts = 1, last_at = now()", SENT),
    ("deliveries SET next_attempt_at = '4713-01-01 BC'", SENT),
    ("deliveries SET next_attempt_at = '294276-12-31'", ["pending", "delivered"]),
    ("deliveries SET state = 'unknown', next_attempt_at = NULL", ["unknown", "delivered"]),
    (
        "deliveries SET state = 'dead', next_attempt_at = NULL, needs_notice = true, last_error = repeat('x', 300000)",
        ["dead: long", "delivered"],
    ),
];

#[tokio::test]
async fn damaged_rows_are_dead_lettered_or_wait_and_delay_nothing_else() {
    let world = World::with().ingests(0).workers(0).set("CONNECT_WEBHOOK_ATTEMPTS", "2");
    let outbound = OutboundWorld::start_with(world).await;
    let (database, receiver) = (&outbound.world.database, &outbound.receiver);
    let url = |n: usize| if n == 0 { "none".to_owned() } else { receiver.url_by_name(&format!("/{n}")) };
    outbound.insert_subscriptions(DAMAGE.len() + 1, url).await;
    receiver.respond("/10", Behavior::status(500));
    database.execute("UPDATE subscriptions SET paused_at = now()").await;
    outbound.insert_outbox_events(2, "lead.assigned").await;
    outbound.until_deliveries("pending", 2 * (DAMAGE.len() as i64 + 1)).await;
    database.execute("ALTER TABLE deliveries DROP CONSTRAINT deliveries_state_check").await;
    let ids = database.rows("SELECT subscription_id AS id FROM subscriptions ORDER BY 1", &[]).await;
    for ((change, _), row) in DAMAGE.iter().zip(&ids) {
        let first = if change.starts_with("deliveries") { "AND number = 1" } else { "" };
        let of = format!("WHERE subscription_id = '{}' {first}", text(&row["id"]));
        database.execute(&format!("UPDATE {change} {of}")).await;
    }
    let resume = "UPDATE subscriptions SET paused_at = NULL; NOTIFY connect_deliveries";
    database.execute(resume).await;

    let expected: Vec<&str> = DAMAGE.iter().flat_map(|(_, became)| became).copied().chain(SENT).collect();
    let became =
        "SELECT state || coalesce(': ' || CASE WHEN length(last_error) > 99 THEN 'long' ELSE last_error END, '')
            AS became FROM deliveries ORDER BY subscription_id, number";
    eventually("all are dead-lettered, sent, or wait", MAX_WAIT, async || {
        let rows = database.rows(became, &[]).await;
        let became: Vec<&str> = rows.iter().filter_map(|row| row["became"].as_str()).collect();
        if became == expected { Ok(()) } else { Err(format!("{became:#?}")) }
    })
    .await;
    let dead = expected.iter().filter(|became| became.starts_with("dead")).count();
    outbound.world.until_depth("webhooks.dead", u32::try_from(dead).expect("few")).await;
    let sent = expected.iter().filter(|became| **became == "delivered").count();
    assert_eq!(receiver.count(), sent + 3, "each once, except for the three that failed");
    outbound.insert_outbox_events(1, "lead.assigned").await;
    receiver.wait_for_at(&format!("/{}", DAMAGE.len()), 3).await;
}
