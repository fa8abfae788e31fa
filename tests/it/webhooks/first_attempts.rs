//! First attempts, which go directly from the outbox to the receivers: crashes, drains, slow receivers and the limit of
//! concurrent attempts.

use super::OutboundWorld;
use std::collections::HashSet;
use tests::{Behavior, MAX_WAIT, Program, World, eventually, text};

/// Longer than a test takes: no attempt fails because of it.
const TIMEOUT: &str = "600s";
/// Enough events for every connection of the dispatcher to have prepared its statements.
const WARM: i64 = 40;

impl OutboundWorld {
    /// With a dispatcher whose attempts do not time out within a test.
    async fn with_long_timeout() -> Self {
        Self::start_with(World::with().set("CONNECT_WEBHOOK_TIMEOUT", TIMEOUT)).await
    }

    /// What a metric of all dispatchers adds up to.
    async fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Vec<f64> {
        let mut sums = Vec::new();
        for dispatcher in &self.world.dispatchers {
            sums.push(dispatcher.metrics().await.sum(name, labels));
        }
        sums
    }

    /// The number of deliveries that were published to the queue.
    async fn queued(&self) -> f64 {
        self.sum("connect_publish_total", &[("queue", "webhooks")]).await.into_iter().sum()
    }

    async fn pending_events(&self) -> i64 {
        self.world.database.count("SELECT count(*) FROM outbox WHERE relayed_at IS NULL").await
    }

    async fn restart_dispatcher(&mut self) {
        self.world.dispatchers[0].kill();
        self.world.dispatchers.clear();
        self.world.add_dispatcher().await;
    }
}

#[tokio::test]
async fn a_first_attempt_needs_no_message_and_no_row_before_it_ends() {
    let outbound = OutboundWorld::with_long_timeout().await;
    let subscription = outbound.subscribe("/hooks", &[]).await;
    outbound.receiver.hold();
    outbound.receiver.respond_to_next("/hooks", [Behavior::status(204).held()]);
    outbound.open_lead().await;
    outbound.receiver.wait_for(1).await;
    assert_eq!(outbound.deliveries(&subscription).await.len(), 0);
    assert_eq!(outbound.pending_events().await, 1);
    assert_eq!(outbound.queued().await, 0.0);
    outbound.receiver.release();
    // One after the other: deliveries to a receiver that is still busy may go through the queue.
    for count in 1..10 {
        outbound.until_deliveries("delivered", count).await;
        outbound.open_lead().await;
    }
    outbound.until_deliveries("delivered", 10).await;
    outbound.until_settled().await;
    let attempts = outbound.attempts(&subscription).await;
    assert_eq!(attempts.len(), 10);
    assert_eq!(outbound.queued().await, 0.0);
}

#[tokio::test]
async fn a_delivery_is_recorded_in_one_round_trip() {
    let builder = World::with().set("CONNECT_WEBHOOK_TIMEOUT", TIMEOUT).through_proxies();
    let outbound = OutboundWorld::start_with(builder).await;
    outbound.subscribe("/hooks", &[]).await;
    for count in 1..=WARM {
        outbound.open_lead().await;
        outbound.until_deliveries("delivered", count).await;
    }
    outbound.receiver.hold();
    outbound.receiver.respond_to_next("/hooks", [Behavior::status(204).held()]);
    outbound.open_lead().await;
    outbound.receiver.wait_for(WARM as usize + 1).await;
    let postgres = &outbound.world.proxies().postgres;
    postgres.stall_replies();
    outbound.receiver.release();
    // All statements arrive and are committed although the server sends no result.
    outbound.until_deliveries("delivered", WARM + 1).await;
    assert_eq!(outbound.pending_events().await, 0);
    assert_eq!(outbound.world.database.count("SELECT count(*) FROM attempts").await, WARM + 1);
    postgres.restore();
}

#[tokio::test]
async fn a_dispatcher_killed_in_a_first_attempt_repeats_it_under_the_same_ids() {
    let mut outbound = OutboundWorld::with_long_timeout().await;
    let subscription = outbound.subscribe("/hooks", &[]).await;
    outbound.receiver.hold();
    outbound.receiver.respond_to_next("/hooks", [Behavior::status(204).held()]);
    outbound.open_lead().await;
    outbound.receiver.wait_for(1).await;
    outbound.restart_dispatcher().await;
    outbound.receiver.release();
    outbound.until_deliveries("delivered", 1).await;
    outbound.until_settled().await;
    let [first, second] = &outbound.receiver.received()[..] else { panic!("two requests") };
    assert_eq!(first.header("x-connect-delivery"), second.header("x-connect-delivery"));
    assert_eq!(first.body, second.body);
    let [delivery] = &outbound.deliveries(&subscription).await[..] else { panic!("one delivery") };
    assert_eq!(delivery["id"], second.header("x-connect-delivery"));
    assert_eq!(outbound.attempts(&subscription).await.len(), 1);
}

#[tokio::test]
async fn a_killed_dispatcher_repeats_only_unrecorded_deliveries() {
    let mut outbound = OutboundWorld::with_long_timeout().await;
    let receiver_holds = ["/held/1", "/held/2"];
    outbound.receiver.hold();
    for path in ["/well/1", "/well/2", "/well/3"] {
        outbound.subscribe(path, &[]).await;
    }
    for path in receiver_holds {
        outbound.subscribe(path, &[]).await;
        outbound.receiver.respond_to_next(path, [Behavior::status(204).held()]);
    }
    outbound.open_lead().await;
    outbound.until_deliveries("delivered", 3).await;
    outbound.receiver.wait_for(5).await;
    assert_eq!(outbound.pending_events().await, 1, "two deliveries are not on record");
    outbound.restart_dispatcher().await;
    outbound.until_deliveries("delivered", 5).await;
    outbound.until_settled().await;
    for path in ["/well/1", "/well/2", "/well/3"] {
        assert_eq!(outbound.receiver.received_at(path).len(), 1, "{path}");
    }
    for path in receiver_holds {
        let [first, second] = &outbound.receiver.received_at(path)[..] else {
            panic!("two requests of {path}")
        };
        assert_eq!(first.header("x-connect-delivery"), second.header("x-connect-delivery"));
    }
}

#[tokio::test]
async fn an_event_is_relayed_once_all_its_deliveries_are_recorded() {
    let outbound = OutboundWorld::with_long_timeout().await;
    let paused = outbound.subscribe("/paused", &[]).await;
    outbound.change_subscription("pause", &paused).await;
    let failing = outbound.subscribe("/failing", &[]).await;
    outbound.receiver.respond_to_next("/failing", [Behavior::status(500)]);
    for number in 0..20 {
        outbound.subscribe(&format!("/well/{number}"), &[]).await;
    }
    outbound.receiver.hold();
    outbound.receiver.respond_to_next("/well/0", [Behavior::status(204).held()]);
    outbound.open_lead().await;
    // All but the one that is held are on record: 19 delivered at once, one at its second attempt, one parked.
    outbound.until_deliveries("delivered", 20).await;
    outbound.until_parked(&paused, 1).await;
    assert_eq!(outbound.pending_events().await, 1);
    outbound.receiver.release();
    outbound.until_deliveries("delivered", 21).await;
    eventually("the event is relayed", MAX_WAIT, async || match outbound.pending_events().await {
        0 => Ok(()),
        pending => Err(format!("{pending} pending")),
    })
    .await;
    assert_eq!(outbound.attempts(&failing).await.len(), 2);
    assert_eq!(outbound.queued().await, 0.0);
    outbound.change_subscription("resume", &paused).await;
    outbound.until_deliveries("delivered", 22).await;
    assert_eq!(outbound.receiver.count(), 23, "each once, and one that failed");
}

#[tokio::test]
async fn deliveries_beyond_the_concurrency_go_through_the_queue_to_any_dispatcher() {
    let builder =
        World::with().set("CONNECT_WEBHOOK_TIMEOUT", TIMEOUT).set("CONNECT_WEBHOOK_CONCURRENCY", "2");
    let outbound = OutboundWorld::with_dispatchers(2, builder).await;
    outbound.subscribe("/hooks", &[]).await;
    outbound.open_lead().await;
    outbound.until_deliveries("delivered", 1).await;
    outbound.receiver.hold();
    outbound.receiver.respond("/hooks", Behavior::status(204).held());
    outbound.insert_outbox_events(60, "lead.assigned").await;
    // A dispatcher may have two attempts under way: a third one must be of the other dispatcher.
    outbound.receiver.wait_for(1 + 3).await;
    eventually("deliveries go through the queue", MAX_WAIT, async || match outbound.queued().await {
        0.0 => Err("none".to_owned()),
        _ => Ok(()),
    })
    .await;
    outbound.receiver.release();
    outbound.until_deliveries("delivered", 61).await;
    outbound.until_settled().await;
    let ids: HashSet<String> = outbound
        .receiver
        .received()
        .iter()
        .map(|webhook| webhook.header("x-connect-delivery").to_owned())
        .collect();
    assert_eq!((ids.len(), outbound.receiver.count()), (61, 61), "each once");
    let attempts = outbound.sum("connect_webhook_attempts_total", &[]).await;
    assert!(attempts.iter().all(|attempts| *attempts > 0.0), "{attempts:?}");
}

#[tokio::test]
async fn without_a_broker_first_attempts_are_made_and_a_slow_receiver_delays_no_other() {
    let builder = World::with().set("CONNECT_WEBHOOK_TIMEOUT", TIMEOUT);
    let mut outbound = OutboundWorld::without_dispatcher(builder).await;
    outbound.subscribe("/dead", &["--events", "lead.stage_changed"]).await;
    outbound.subscribe("/alive", &["--events", "lead.assigned"]).await;
    let mut settings = outbound.world.settings().to_vec();
    settings.push(("AMQP_URL".to_owned(), "amqp://127.0.0.1:1/%2f".to_owned()));
    let mut without_broker = Program::spawn("connect-dispatcher", &settings);
    without_broker.until_listening().await;
    outbound.world.dispatchers.push(without_broker);
    outbound.insert_outbox_events(1, "lead.assigned").await;
    outbound.until_deliveries("delivered", 1).await;
    outbound.receiver.hold();
    outbound.receiver.respond("/dead", Behavior::status(204).held());
    outbound.insert_outbox_events(100, "lead.stage_changed").await;
    outbound.receiver.wait_for_at("/dead", 1).await;
    for told in 1..=20 {
        outbound.insert_outbox_events(10, "lead.assigned").await;
        outbound.receiver.wait_for_at("/alive", 1 + 10 * told).await;
    }
    outbound.until_deliveries("delivered", 201).await;
    outbound.receiver.release();

    // What waits in the database needs the broker.
    outbound.world.dispatchers.clear();
    outbound.world.add_dispatcher().await;
    outbound.until_deliveries_within(MAX_WAIT * 9, "delivered", 301).await;
}

#[tokio::test]
async fn a_drain_records_attempts_under_way_and_leaves_the_rest_to_the_next() {
    let settings =
        World::with().set("CONNECT_SHUTDOWN_TIMEOUT", "600s").set("CONNECT_WEBHOOK_TIMEOUT", TIMEOUT);
    let mut outbound = OutboundWorld::start_with(settings).await;
    let subscription = outbound.subscribe("/hooks", &[]).await;
    outbound.receiver.hold();
    outbound.receiver.respond_to_next("/hooks", [Behavior::status(204).held()]);
    // A receiver without a history gets one attempt at a time: the others wait in its lane, in the queue or in the outbox.
    outbound.insert_outbox_events(30, "lead.assigned").await;
    outbound.receiver.wait_for(1).await;
    outbound.world.dispatchers[0].signal("TERM");
    outbound.world.dispatchers[0].until_unready().await;
    outbound.receiver.release();
    assert_eq!(outbound.world.dispatchers[0].until_ended(MAX_WAIT).await.code(), Some(0));
    assert!(outbound.count("delivered").await >= 1, "what had begun is on record");

    outbound.world.dispatchers.clear();
    outbound.world.add_dispatcher().await;
    outbound.until_deliveries("delivered", 30).await;
    outbound.until_settled().await;
    assert_eq!(outbound.receiver.count(), 30, "nothing is repeated");
    let deliveries = outbound.deliveries(&subscription).await;
    let ids: HashSet<&str> = deliveries.iter().map(|delivery| text(&delivery["id"])).collect();
    assert_eq!(ids.len(), 30);
}
