//! One bad receiver never delays deliveries to the others (D28), and what is put aside comes back.
//!
//! Bad receivers hold every request until they are told to go on, so that nothing here depends on how long anything takes.

use super::Outbound;
use std::time::Duration;
use tests::{Behaviour, World};

/// Longer than a test takes: no attempt fails because of it.
const TIMEOUT: &str = "100s";
const PATIENCE: Duration = Duration::from_secs(180);

impl Outbound {
    /// Puts events into the outbox as the worker does, without the time that causing thousands of them would take.
    pub(super) async fn emit(&self, count: usize, event_type: &str) {
        let statement = format!(
            "INSERT INTO outbox (tenant_id, event_id, event_type, key_prefix, origin, envelope, created_at)
             SELECT tenant_id, overlay(gen_random_uuid()::text placing lpad(to_hex(n), 8, '0') from 1 for 8)::uuid,
                    '{event_type}', NULL, 'crm', json_build_object('n', n), now()
             FROM tenants, generate_series(1, {count}) AS n WHERE slug = 'acme'"
        );
        self.world.database.execute(&statement).await;
    }
}

#[tokio::test]
async fn a_receiver_that_does_not_answer_keeps_its_backlog_of_thousands_to_itself() {
    let outbound = Outbound::of(World::with().set("CONNECT_WEBHOOK_TIMEOUT", TIMEOUT)).await;
    let receiver = &outbound.receiver;
    receiver.hold();
    receiver.answer("/dead", Behaviour::status(204).held());
    outbound.subscribe("/dead", &["--events", "lead.stage_changed"]).await;
    outbound.subscribe("/alive", &["--events", "lead.assigned"]).await;
    // Ahead of the others in the queue, and more than a dispatcher takes from it at once.
    outbound.emit(3_000, "lead.stage_changed").await;
    receiver.wait_for_at("/dead", 1).await;
    outbound.emit(500, "lead.assigned").await;
    receiver.wait_for_at("/alive", 500).await;
    outbound.until("delivered", 500).await;
    let held = receiver.received_at("/dead").len();
    assert!(held <= 32, "{held} requests at once to one receiver");

    receiver.release();
    outbound.until_within(PATIENCE, "delivered", 3_500).await;
    assert_eq!(receiver.received_at("/dead").len(), 3_000, "each once");
}

#[tokio::test]
async fn many_receivers_that_do_not_answer_leave_room_for_one_that_does() {
    let world =
        World::with().set("CONNECT_WEBHOOK_TIMEOUT", TIMEOUT).set("CONNECT_WEBHOOK_CONCURRENCY", "16");
    let outbound = Outbound::of(world).await;
    let receiver = &outbound.receiver;
    outbound.subscribe("/alive", &["--events", "lead.assigned"]).await;
    outbound.emit(1, "lead.assigned").await;
    receiver.wait_for_at("/alive", 1).await;
    receiver.hold();
    for dead in 0..20 {
        let path = format!("/dead/{dead}");
        receiver.answer(&path, Behaviour::status(204).held());
        outbound.subscribe(&path, &["--events", "lead.stage_changed"]).await;
    }
    outbound.emit(50, "lead.stage_changed").await;
    // An eighth of the attempts go to receivers of whom nothing is known.
    receiver.wait_for(1 + 2).await;
    outbound.emit(200, "lead.assigned").await;
    receiver.wait_for_at("/alive", 201).await;
    receiver.release();
    outbound.until_within(PATIENCE, "delivered", 1_201).await;
}

#[tokio::test]
async fn what_the_queue_has_lost_is_put_into_it_again() {
    let outbound = Outbound::of(World::with().set("CONNECT_WEBHOOK_RESCUE_AFTER", "1s")).await;
    let subscription = outbound.subscribe("/hooks", &[]).await;
    outbound
        .world
        .database
        .execute(&format!(
            "WITH event AS (
                 INSERT INTO outbox (tenant_id, event_id, event_type, origin, envelope, created_at, relayed_at)
                 SELECT tenant_id, gen_random_uuid(), 'lead.assigned', 'crm', '{{}}', now(), now() FROM tenants
                 RETURNING tenant_id, event_id
             )
             INSERT INTO deliveries (tenant_id, delivery_id, event_id, subscription_id, state, created_at, next_attempt_at)
             SELECT tenant_id, gen_random_uuid(), event_id, '{}', 'pending', now(), now() - interval '1 minute' FROM event",
            subscription.id
        ))
        .await;
    outbound.until_within(PATIENCE, "delivered", 1).await;
    assert_eq!(outbound.receiver.count(), 1);
}
