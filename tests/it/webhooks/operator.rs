//! The dispatcher's drain, readiness, gauges and metrics (docs/operators.md).

use super::OutboundWorld;
use serde_json::json;
use std::time::{Duration, Instant};
use tests::{Behavior, MAX_WAIT, World, eventually};

#[tokio::test]
async fn an_attempt_that_outlasts_the_drain_is_repeated_by_the_next_dispatcher() {
    let settings = World::with().set("CONNECT_SHUTDOWN_TIMEOUT", "3s").set("CONNECT_WEBHOOK_TIMEOUT", "60s");
    let mut outbound = OutboundWorld::start_with(settings).await;
    outbound.subscribe("/stuck", &[]).await;
    outbound.receiver.respond_to_next("/stuck", [Behavior::Silent]);
    outbound.open_lead().await;
    outbound.receiver.wait_for(1).await;
    let asked = Instant::now();
    assert_eq!(outbound.world.dispatchers[0].terminate().await.code(), Some(0));
    assert!(asked.elapsed() < Duration::from_secs(8), "{:?}", asked.elapsed());
    assert_eq!(outbound.count("pending").await, 1, "it waits where it was");

    outbound.world.restart_dispatcher().await;
    outbound.until_deliveries("delivered", 1).await;
    let [first, second] = &outbound.receiver.received()[..] else { panic!("two requests") };
    assert_eq!(first.header("x-connect-delivery"), second.header("x-connect-delivery"));
    assert_eq!(first.body, second.body);
}

#[tokio::test]
async fn a_dispatcher_is_ready_while_the_database_is_available_with_or_without_a_broker() {
    let builder = World::with().ingests(0).workers(0).dispatchers(1).through_proxies();
    let world = builder.set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true").start().await;
    let dispatcher = &world.dispatchers[0];
    let until = async |postgres: bool| {
        eventually(&format!("postgres {postgres}"), MAX_WAIT, async || {
            let response = dispatcher.operator_get("/readyz").await.map_err(|error| format!("{error:?}"))?;
            let checks = &response.json()["checks"];
            let expected = json!({"clock": true, "master_key": postgres, "postgres": postgres, "slots": postgres});
            let (all, slots) = if postgres { (200, 64.0) } else { (503, 0.0) };
            let held = dispatcher.metrics().await.sum("connect_dispatcher_slots", &[("state", "held")]);
            let is_expected = (response.status, checks, held) == (all, &expected, slots);
            if is_expected { Ok(()) } else { Err(format!("{response:?}, {held} slots")) }
        })
        .await;
    };
    until(true).await;
    world.proxies().broker.reset_connections();
    eventually("the lost broker is shown", MAX_WAIT, async || {
        match dispatcher.metrics().await.sum("connect_broker_connected", &[]) {
            0.0 => Ok(()),
            connected => Err(connected.to_string()),
        }
    })
    .await;
    until(true).await;
    world.proxies().postgres.reset_connections();
    until(false).await;
    assert_eq!(dispatcher.operator_get("/livez").await.expect("alive").status, 200);
    world.proxies().postgres.restore();
    until(true).await;
    world.proxies().postgres.stall();
    until(false).await;
    world.proxies().postgres.restore();
    until(true).await;
}

#[tokio::test]
async fn what_waits_and_its_age_are_exported() {
    let mut outbound = OutboundWorld::without_dispatcher(World::with()).await;
    outbound.subscribe("/hooks", &[]).await;
    for _ in 0..3 {
        outbound.open_lead().await;
    }
    // The gauge knows the oldest event, although it counts only those of another tenant.
    let older = "UPDATE outbox_pending SET created_at = now() - interval '1 hour';
        INSERT INTO outbox_pending (tenant_id, event_id, created_at)
        SELECT '00000000-0000-0000-0000-000000000000', gen_random_uuid(), now() FROM generate_series(1, 100000)";
    outbound.world.database.execute(older).await;
    // The slots of all tenants are held by a dispatcher that is stuck.
    let holder = outbound.world.database.begin("SELECT FROM dispatcher_slots FOR UPDATE").await;
    outbound.world.add_dispatcher().await;
    outbound.until_metric("connect_outbox_pending", &[], 100_000.0).await;
    let oldest = outbound.world.dispatchers[0].metrics().await.sum("connect_outbox_oldest_seconds", &[]);
    assert!((3_600.0..3_700.0).contains(&oldest), "{oldest}");
    outbound.until_metric("connect_dispatcher_slots", &[("state", "held")], 0.0).await;

    outbound.receiver.hold();
    outbound.receiver.respond("/hooks", Behavior::status(204).held());
    let others = "DELETE FROM outbox_pending WHERE tenant_id = '00000000-0000-0000-0000-000000000000'; COMMIT";
    holder.batch_execute(others).await.expect("a commit");
    outbound.until_metric("connect_webhook_due", &[], 3.0).await;
    outbound.until_metric("connect_outbox_pending", &[], 0.0).await;
    outbound.until_metric("connect_outbox_oldest_seconds", &[], 0.0).await;
    outbound.until_metric("connect_dispatcher_slots", &[("state", "held")], 64.0).await;
    let metrics = outbound.world.dispatchers[0].metrics().await;
    assert!(metrics.sum("connect_webhook_oldest_due_seconds", &[]) > 0.0);
    outbound.receiver.release();
    outbound.until_deliveries("delivered", 3).await;
    outbound.until_metric("connect_webhook_due", &[], 0.0).await;
    outbound.until_metric("connect_webhook_oldest_due_seconds", &[], 0.0).await;
}

#[tokio::test]
async fn metrics_and_logs_have_no_personal_data() {
    let outbound = OutboundWorld::start_with(World::with().set("CONNECT_WEBHOOK_ATTEMPTS", "2")).await;
    let dead = outbound.subscribe("/dead", &[]).await;
    outbound.subscribe("/well", &[]).await;
    outbound.receiver.respond("/dead", Behavior::status(500).with_body("a secret of the receiver's"));
    let result = outbound.open_lead_until("dead", 1).await;
    outbound.until_deliveries("delivered", 1).await;
    let samples = outbound.world.dispatchers[0].metrics().await;
    let text = format!("{:?}", samples.all());
    let lead = tests::text(&result["leadId"]);
    for datum in ["acme", "ana@example.com", lead, &dead.id, "localhost", "/dead", &dead.secret] {
        assert!(!text.contains(datum), "{datum} is in the metrics");
    }
    let logs = outbound.world.dispatchers[0].logs();
    for datum in ["ana@example.com", "a secret of the receiver's", &dead.secret, "Ana", "/dead"] {
        assert!(!logs.contains(datum), "{datum} is in the logs");
    }
}
