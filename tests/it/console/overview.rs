//! The last hour, and what needs attention.

use super::{ConsoleWorld, between};
use admin::attention::{self, Scope, ServerStates};
use chrono::{DateTime, Utc};
use serde_json::json;
use tests::{
    ApiKey, Behavior, MAX_WAIT, Program, Receiver, TestDatabase, World, event, eventually, until_equal, words,
};

#[tokio::test]
async fn the_last_hour_is_counted_for_each_agency_and_for_all() {
    let mut console = ConsoleWorld::of(
        World::with()
            .dispatchers(1)
            .set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")
            .set("CONNECT_WEBHOOK_BACKOFF_BASE", "60m"),
    )
    .await;
    let world = &mut console.world;
    world.connectctl.json(&words("member add --tenant acme --email m@example.com --name Mo")).await;
    let other = world.add_tenant("other").await;
    let (good, bad) = (Receiver::http(), Receiver::http());
    bad.respond_to_all(Behavior::status(500));
    world.subscribe(&good.url("/hook")).await;
    world.subscribe(&bad.url("/hook")).await;
    // Applied, failed, and refused because another secret has signed it.
    world.accept(event("enquiry.submitted").email("ana@example.com")).await;
    world.accept(event("contact.identified").email("ben@example.com")).await;
    let unknown = world.send(&[event("contact.updated").email("nobody@example.com")]).await.assert_status(200);
    let failed = format!(
        "<a href=\"/agencies/acme/keys/{key}\">1 of 3 events failed in the last 10 minutes with contact_not_found. The latest: key {key}, request {}.</a>",
        unknown.header("x-request-id"),
        key = world.key.prefix
    );
    let body = json!({"events": [event("contact.identified").email("eve@example.com").tenant("other").to_json()]});
    assert_eq!(world.http().send(&other.events(body.to_string())).await.status, 200);
    let forged = ApiKey { secret: world.key.secret.clone(), ..other };
    assert_eq!(world.http().send(&forged.events(body.to_string())).await.status, 401);

    let (viewer, operator) = (console.viewer().await, console.operator().await);
    let acme = [
        "3 accepted, 0 refused and 0 got 500 or 503 in the last hour",
        "2 applied and 1 failed in the last hour",
        "1 delivered and 1 failed in the last hour",
        "<title id=\"attempts-title\">Attempts at webhooks</title>",
        &failed,
        "No contact matches. The partner must send contact.identified first",
    ];
    let page = viewer.until_shown("/agencies/acme", &acme).await;
    assert!(!page.contains("Waiting in"), "queues are the operator's: {page}");
    assert_eq!(between(&page, "<tbody>", "</tbody>").matches("<tr>").count(), 60, "a row for each minute");
    let refused = format!(" ({}) are refused: 1 of 2 in the last 10 minutes, for the reason mismatch", forged.prefix);
    let of_key = format!("href=\"/agencies/other/refusals?key={}\"", forged.prefix);
    let others = [
        "1 accepted, 1 refused and 0 got 500 or 503 in the last hour",
        "1 applied and 0 failed",
        "0 delivered and 0 failed",
        &refused,
        &of_key,
    ];
    operator.until_shown("/agencies/other", &others).await;
    console.world.database.execute("UPDATE refused_requests SET at = at - interval '3 minutes'").await;
    assert!(!operator.page("/agencies/other").await.contains(" are refused: "));
    let all = ["4 accepted, 1 refused and 0 got 500", "3 applied and 1 failed", "1 delivered and 1 failed"];
    let day = ["4 accepted, 1 refused and 0 got 500 or 503 in the last 24 hours", "The numbers of each hour"];
    operator.until_shown("/?range=24h", &day).await;
    operator.until_shown("/agencies/other?range=7d", &["1 accepted, 1 refused and 0 got 500"]).await;
    let page = operator.until_shown("/", &all).await;
    for queue in ["events", "records", "crm"] {
        assert!(page.contains(&format!("Waiting in {queue}")), "{queue}: {page}");
    }

    for _ in 0..4 {
        console.world.accept(event("enquiry.submitted").email("ana@example.com")).await;
    }
    let failing = "fails: 5 of 5 attempts of the last 10 minutes, the last failure: status 500.";
    viewer.until_shown("/agencies/acme", &[failing, &bad.url("/hook")]).await;
}

#[tokio::test]
async fn what_needs_attention_is_told_with_its_section_of_the_runbook() {
    let console = ConsoleWorld::of(World::with().workers(1).dispatchers(1)).await;
    let operator = console.operator().await;
    operator.until_shown("/", &["Nothing needs attention."]).await;
    console.world.queues.publish("crm", b"no action").await;
    let told = ["Dead letters of the queue crm: 1.", "href=\"/runbook#connectmessagesdeadlettered\""];
    operator.until_shown("/", &told).await;
    let runbook = operator.page("/runbook").await;
    assert!(runbook.contains("id=\"connectmessagesdeadlettered\""), "{runbook}");
    operator.change("/queues/crm/drop", &[]).await;
    operator.until_shown("/", &["Nothing needs attention."]).await;
    let failing = "INSERT INTO activity_minutes (tenant_id, slot, minute, accepted, refused, delivered, undelivered)
        SELECT t.id, s.slot, date_trunc(s.unit, now(), 'UTC'), 20, 30, 80, 30
        FROM (SELECT tenant_id FROM tenants UNION ALL SELECT lpad('', 32, '0')::uuid) AS t (id), LATERAL (VALUES
            ('minute', extract(epoch FROM now())::bigint / 60 % 64), ('hour', 64 + extract(epoch FROM now())::bigint / 3600 % 192)
        ) AS s (unit, slot) ON CONFLICT (tenant_id, slot) DO UPDATE SET minute = excluded.minute, accepted = 20,
            refused = 30, delivered = 80, undelivered = 30;
        INSERT INTO failure_minutes (tenant_id, cause, slot, minute, failed, succeeded)
        SELECT tenant_id, 'receiver:' || cause, 0, date_trunc('minute', now()), failed, succeeded
        FROM tenants, (VALUES ('fails', 20, 8), ('works', 0, 9)) AS r (cause, failed, succeeded);
        INSERT INTO failure_minutes (tenant_id, cause, slot, minute, failed, succeeded)
        SELECT tenant_id, 'receiver:over', n, now() - (n + 4) * interval '1 minute', 9 * (n - 1), 2 - n
        FROM tenants, generate_series(1, 2) n;
        INSERT INTO refused_requests (tenant_id, request_id, key_prefix, at, method, route, status, reason, body_bytes)
        SELECT tenant_id, tenant_id, 'ck_1', now(), 'POST', '/', 422, 'x', 1 FROM tenants";
    console.world.database.execute(failing).await;
    let told = [
        "30 of 50 requests were refused in the last 10 minutes. Statuses of those on record: 422 (1). Agencies with the most: acme (30).",
        "30 of 110 attempts at webhooks failed in the last 10 minutes. Agencies with the most: acme (20).",
        "<a href=\"/agencies/acme\">Overview: acme</a>",
    ];
    operator.until_shown("/", &told).await;
}

#[tokio::test]
async fn the_oldest_event_and_webhook_are_told_however_many_wait() {
    let database = TestDatabase::new().await;
    let client = database.connect().await;
    client.batch_execute(&crate::pipeline::plans::planner_settings()).await.expect("settings");
    let waiting = "INSERT INTO outbox_pending (tenant_id, event_id, created_at)
        SELECT lpad(n::text, 32, '0')::uuid, gen_random_uuid(), now() - n * interval '1 hour'
        FROM generate_series(0, 1) n, generate_series(1, 100000 - n * 99999);
        INSERT INTO subscriptions (tenant_id, subscription_id, display_url, url_sealed, secret_sealed, created_at)
        SELECT tenant_id, lpad(n::text, 32, '0')::uuid, '', '', '', now() FROM tenants, generate_series(0, 10000) n;
        INSERT INTO deliveries
            (tenant_id, delivery_id, event_id, subscription_id, state, created_at, number, next_attempt_at)
        SELECT tenant_id, subscription_id, subscription_id, subscription_id, 'pending', now(), 1,
               now() - interval '1 hour' * (subscription_id = lpad('10000', 32, '0')::uuid)::int FROM subscriptions;
        UPDATE dispatcher_slots SET holder = gen_random_uuid(), leased_until = now() + interval '5 s'";
    client.batch_execute(waiting).await.expect("rows");
    // All subscriptions together take longer than a statement may.
    let slow = "ALTER FUNCTION pending_subscriptions(smallint, uuid, bigint) RENAME TO fast_subscriptions;
        CREATE FUNCTION pending_subscriptions(smallint, uuid, bigint) RETURNS TABLE (slot smallint,
            subscription_id uuid, tenant_id uuid, next_attempt_at timestamptz, is_paused boolean) LANGUAGE sql
            AS 'SELECT * FROM fast_subscriptions($1, $2, $3) WHERE pg_sleep(CASE WHEN random() < 0.1 THEN 0.003 ELSE 0 END) IS NOT NULL';
        SET statement_timeout = '2500ms'";
    client.batch_execute(slow).await.expect("a slow function");
    let servers = ServerStates::default();
    let told = attention::find(&client, Scope::Installation(&servers)).await.expect("what needs attention");
    for cause in ["ConnectOutboxStuck", "ConnectWebhooksLate"] {
        assert!(told.iter().any(|one| one.cause == cause), "{cause}");
    }
}

#[tokio::test]
async fn an_agency_is_told_that_its_webhooks_are_late() {
    let console = ConsoleWorld::of(World::with().set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")).await;
    let receiver = Receiver::http();
    console.world.subscribe(&receiver.url("/hooks")).await;
    console.world.accept(event("enquiry.submitted").email("ana@example.com")).await;
    let viewer = console.viewer().await;
    let late = "Webhooks are late: the oldest has waited for 3 minutes to be sent.";
    assert!(!viewer.page("/agencies/acme").await.contains("Webhooks are late"));
    console.world.database.execute("UPDATE outbox_pending SET created_at = now() - interval '3 minutes'").await;
    viewer.until_shown("/agencies/acme", &[late]).await;
    let moved = "WITH moved AS (DELETE FROM outbox_pending RETURNING *)
        INSERT INTO deliveries
            (tenant_id, delivery_id, event_id, subscription_id, state, created_at, number, next_attempt_at)
        SELECT m.tenant_id, gen_random_uuid(), m.event_id, s.subscription_id, 'pending', now(), 1, m.created_at
        FROM moved m JOIN subscriptions s USING (tenant_id)";
    console.world.database.execute(moved).await;
    viewer.until_shown("/agencies/acme", &[late]).await;
    console.world.database.execute("UPDATE subscriptions SET paused_at = now()").await;
    assert!(!viewer.page("/agencies/acme").await.contains("Webhooks are late"));
}

#[tokio::test]
async fn waiting_messages_have_an_age_in_the_browser_and_on_the_command_line() {
    let builder = World::with().dispatchers(1).set("CONNECT_REPLY_TIMEOUT", "500ms");
    let mut console = ConsoleWorld::of(builder).await;
    console.world.accept_with_retries(event("contact.identified").email("ana@example.com")).await;
    console.world.end_workers().await;
    let waiting = console.world.send(&[event("contact.identified").email("ben@example.com")]).await.assert_status(503);
    let sent_by = common::clock::now();
    let (operator, viewer) = (console.operator().await, console.viewer().await);
    let refused = format!("/find?id={}", waiting.header("x-request-id"));
    operator.until_shown(&refused, &["Answered 503", "processing_timeout"]).await;
    // A busy machine may be late with the first event, too.
    let unanswered = " got 503 in the last 10 minutes: processing_timeout (";
    viewer.until_shown("/agencies/acme", &[unanswered]).await;
    let missing = "No copy of connect-worker works with the database.";
    let page = operator.until_shown("/", &[missing, "href=\"/runbook#connectprogrammissing\""]).await;
    assert!(!page.contains(unanswered) && !page.contains("No worker consumes"), "one line for one cause: {page}");
    let events = eventually("the age is known", MAX_WAIT, async || {
        let listed = console.world.connectctl.list(&["queue", "list"]).await;
        let events = listed.into_iter().find(|queue| queue["name"] == "events").expect("the queue");
        if events["oldest"].is_string() && events["depth"] == 1 { Ok(events) } else { Err(events.to_string()) }
    })
    .await;
    let oldest: DateTime<Utc> = tests::text(&events["oldest"]).parse().expect("a time");
    assert!(oldest <= sent_by, "nothing that waits is shown as newer than it is: {events}");
    let page = operator.page("/queues").await;
    let row = between(&page, "/queues/events\"", "</tr>");
    assert!(row.contains("<time datetime="), "{row}");
    let _worker = Program::worker(console.world.settings()).await;
    console.world.until_applied(2).await;
    until_equal("nothing waits", false, async || {
        between(&operator.page("/queues").await, "/queues/events\"", "</tr>").contains("<time")
    })
    .await;
    operator.until_shown("/", &[unanswered, "href=\"/runbook#events-are-late\""]).await;
}

#[tokio::test]
async fn requests_whose_key_the_database_cannot_confirm_are_counted_for_their_agency() {
    let builder = World::with().through_proxies().set("CONNECT_STORE_TIMEOUT", "300ms");
    let console = ConsoleWorld::of(builder).await;
    let ana = event("contact.identified").email("ana@example.com");
    console.world.accept_with_retries(ana.clone()).await;
    let viewer = console.viewer().await;
    console.world.proxies().postgres.stall();
    // The key may still be confirmed for the first one, but not for all.
    for _ in 0..4 {
        console.world.send(std::slice::from_ref(&ana)).await.assert_status(503);
    }
    let refused = console.world.send(std::slice::from_ref(&ana)).await;
    console.world.proxies().postgres.restore();
    console.world.until_ready().await;
    viewer.until_shown("/agencies/acme", &["5 requests got 503 in the last 10 minutes"]).await;
    viewer.until_shown("/agencies/acme?range=24h", &["0 refused and 5 got 500 or 503 in the last 24 hours"]).await;
    let found = format!("/agencies/acme/find?id={}", refused.header("x-request-id"));
    viewer.until_shown(&found, &["Answered 503", "replay_store_unavailable"]).await;
}
