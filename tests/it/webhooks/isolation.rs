//! A slow receiver never delays deliveries to the others, nor does a tenant those of another one (D28).
//!
//! Slow receivers hold every request until the test releases them, so that nothing depends on timing.

use super::OutboundWorld;
use tests::{Behavior, MAX_WAIT, World};

/// Longer than a test takes: no attempt fails because of it.
const TIMEOUT: &str = "600s";

impl OutboundWorld {
    /// Inserts events into the outbox as the worker does, which is faster than causing thousands of them.
    pub(super) async fn insert_outbox_events(&self, count: usize, event_type: &str) {
        self.insert_outbox_events_of("acme", count, event_type).await;
    }

    pub(super) async fn insert_outbox_events_of(&self, tenant: &str, count: usize, event_type: &str) {
        let statement = format!(
            "WITH new AS (
                 INSERT INTO outbox (tenant_id, event_id, event_type, key_prefix, origin, envelope, created_at)
                 SELECT tenant_id, overlay(gen_random_uuid()::text placing lpad(to_hex(n), 8, '0') from 1 for 8)::uuid,
                        '{event_type}', NULL, 'crm', json_build_object('n', n), now()
                 FROM tenants, generate_series(1, {count}) AS n WHERE slug = '{tenant}'
                 RETURNING tenant_id, event_id, created_at
             )
             INSERT INTO outbox_pending (tenant_id, event_id, created_at) SELECT * FROM new;
             NOTIFY connect_outbox"
        );
        self.world.database.execute(&statement).await;
    }
}

#[tokio::test]
async fn an_unresponsive_receiver_with_thousands_of_deliveries_delays_no_other() {
    let outbound = OutboundWorld::start_with(World::with().set("CONNECT_WEBHOOK_TIMEOUT", TIMEOUT)).await;
    let receiver = &outbound.receiver;
    receiver.hold();
    receiver.respond("/dead", Behavior::status(204).held());
    outbound.subscribe("/dead", &["--events", "lead.stage_changed"]).await;
    outbound.subscribe("/alive", &["--events", "lead.assigned"]).await;
    // Before the others, and more than a dispatcher has at a time.
    outbound.insert_outbox_events(3_000, "lead.stage_changed").await;
    receiver.wait_for_at("/dead", 1).await;
    outbound.insert_outbox_events(500, "lead.assigned").await;
    receiver.wait_for_at("/alive", 500).await;
    outbound.until_deliveries("delivered", 500).await;
    let held = receiver.received_at("/dead").len();
    assert!(held <= 32, "{held} requests at once to one receiver");

    receiver.release();
    outbound.until_deliveries_within(MAX_WAIT, "delivered", 3_500).await;
    assert_eq!(receiver.received_at("/dead").len(), 3_000, "each once");
}

#[tokio::test]
async fn many_unresponsive_receivers_leave_capacity_for_a_responsive_one() {
    let world =
        World::with().set("CONNECT_WEBHOOK_TIMEOUT", TIMEOUT).set("CONNECT_WEBHOOK_CONCURRENCY", "16");
    let outbound = OutboundWorld::start_with(world).await;
    let receiver = &outbound.receiver;
    outbound.subscribe("/alive", &["--events", "lead.assigned"]).await;
    outbound.insert_outbox_events(1, "lead.assigned").await;
    receiver.wait_for_at("/alive", 1).await;
    receiver.hold();
    for dead in 0..20 {
        let path = format!("/dead/{dead}");
        receiver.respond(&path, Behavior::status(204).held());
        outbound.subscribe(&path, &["--events", "lead.stage_changed"]).await;
    }
    outbound.insert_outbox_events(50, "lead.stage_changed").await;
    // Receivers without a history get half of the concurrent attempts, and those of one tenant half of these.
    receiver.wait_for(1 + 4).await;
    // Of another tenant a new receiver, too, has its webhook.
    outbound.world.add_tenant("zeta").await;
    outbound.subscribe_of("zeta", &receiver.url_by_name("/zeta"), &[]).await;
    outbound.insert_outbox_events_of("zeta", 1, "lead.assigned").await;
    receiver.wait_for_at("/zeta", 1).await;
    outbound.insert_outbox_events(200, "lead.assigned").await;
    receiver.wait_for_at("/alive", 201).await;
    receiver.release();
    outbound.until_deliveries_within(MAX_WAIT, "delivered", 1_202).await;
}
