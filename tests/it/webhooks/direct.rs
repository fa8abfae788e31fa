//! First attempts that go straight from the outbox to the receivers: what a crash, a drain, a slow receiver or a lack of room
//! makes of them.

use super::Outbound;
use std::collections::HashSet;
use tests::{Behaviour, PATIENCE, Program, World, eventually, text};

/// Longer than a test takes: no attempt fails because of it.
const TIMEOUT: &str = "100s";
/// Enough events for every connection of the dispatcher to know its statements.
const WARM: i64 = 40;

impl Outbound {
    /// A dispatcher that waits as long as it takes for a response.
    async fn patient() -> Self {
        Self::of(World::with().set("CONNECT_WEBHOOK_TIMEOUT", TIMEOUT)).await
    }

    /// What a metric of all dispatchers adds up to.
    async fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Vec<f64> {
        let mut sums = Vec::new();
        for dispatcher in &self.world.dispatchers {
            sums.push(dispatcher.metrics().await.sum(name, labels));
        }
        sums
    }

    /// Deliveries that were put into the queue.
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
async fn a_first_attempt_needs_no_message_and_no_row_before_it_has_ended() {
    let outbound = Outbound::patient().await;
    let subscription = outbound.subscribe("/hooks", &[]).await;
    outbound.receiver.hold();
    outbound.receiver.answer_next("/hooks", [Behaviour::status(204).held()]);
    outbound.tell().await;
    outbound.receiver.wait_for(1).await;
    assert_eq!(outbound.deliveries(&subscription).await.len(), 0);
    assert_eq!(outbound.pending_events().await, 1);
    assert_eq!(outbound.queued().await, 0.0);
    outbound.receiver.release();
    // One after the other: what comes while the receiver is slow to respond may go through the queue.
    for count in 1..10 {
        outbound.until("delivered", count).await;
        outbound.tell().await;
    }
    outbound.until("delivered", 10).await;
    outbound.until_settled().await;
    let attempts = outbound.attempts(&subscription).await;
    assert_eq!(attempts.len(), 10);
    assert_eq!(outbound.queued().await, 0.0);
}

#[tokio::test]
async fn a_delivery_goes_on_record_in_one_round_trip() {
    let builder = World::with().set("CONNECT_WEBHOOK_TIMEOUT", TIMEOUT).through_proxies();
    let outbound = Outbound::of(builder).await;
    outbound.subscribe("/hooks", &[]).await;
    for count in 1..=WARM {
        outbound.tell().await;
        outbound.until("delivered", count).await;
    }
    outbound.receiver.hold();
    outbound.receiver.answer_next("/hooks", [Behaviour::status(204).held()]);
    outbound.tell().await;
    outbound.receiver.wait_for(WARM as usize + 1).await;
    let postgres = &outbound.world.proxies().postgres;
    postgres.stall_replies();
    outbound.receiver.release();
    // All of it arrives and is committed although not one statement is answered.
    outbound.until("delivered", WARM + 1).await;
    assert_eq!(outbound.pending_events().await, 0);
    assert_eq!(outbound.world.database.count("SELECT count(*) FROM attempts").await, WARM + 1);
    postgres.restore();
}

#[tokio::test]
async fn a_dispatcher_that_is_killed_in_a_first_attempt_makes_it_again_under_the_same_ids() {
    let mut outbound = Outbound::patient().await;
    let subscription = outbound.subscribe("/hooks", &[]).await;
    outbound.receiver.hold();
    outbound.receiver.answer_next("/hooks", [Behaviour::status(204).held()]);
    outbound.tell().await;
    outbound.receiver.wait_for(1).await;
    outbound.restart_dispatcher().await;
    outbound.receiver.release();
    outbound.until("delivered", 1).await;
    outbound.until_settled().await;
    let [first, second] = &outbound.receiver.received()[..] else { panic!("two requests") };
    assert_eq!(first.header("x-connect-delivery"), second.header("x-connect-delivery"));
    assert_eq!(first.body, second.body);
    let [delivery] = &outbound.deliveries(&subscription).await[..] else { panic!("one delivery") };
    assert_eq!(delivery["id"], second.header("x-connect-delivery"));
    assert_eq!(outbound.attempts(&subscription).await.len(), 1);
}

#[tokio::test]
async fn a_dispatcher_that_is_killed_repeats_only_what_is_not_on_record() {
    let mut outbound = Outbound::patient().await;
    let receiver_holds = ["/held/1", "/held/2"];
    outbound.receiver.hold();
    for path in ["/well/1", "/well/2", "/well/3"] {
        outbound.subscribe(path, &[]).await;
    }
    for path in receiver_holds {
        outbound.subscribe(path, &[]).await;
        outbound.receiver.answer_next(path, [Behaviour::status(204).held()]);
    }
    outbound.tell().await;
    outbound.until("delivered", 3).await;
    outbound.receiver.wait_for(5).await;
    assert_eq!(outbound.pending_events().await, 1, "two deliveries are not on record");
    outbound.restart_dispatcher().await;
    outbound.until("delivered", 5).await;
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
async fn an_event_for_paused_and_active_subscriptions_is_relayed_once_all_deliveries_are_on_record() {
    let outbound = Outbound::patient().await;
    let paused = outbound.subscribe("/paused", &[]).await;
    outbound.change("pause", &paused).await;
    let failing = outbound.subscribe("/failing", &[]).await;
    outbound.receiver.answer_next("/failing", [Behaviour::status(500)]);
    for number in 0..20 {
        outbound.subscribe(&format!("/well/{number}"), &[]).await;
    }
    outbound.receiver.hold();
    outbound.receiver.answer_next("/well/0", [Behaviour::status(204).held()]);
    outbound.tell().await;
    // All but the one that is held are on record: 19 delivered at once, one at its second attempt, one parked.
    outbound.until("delivered", 20).await;
    outbound.until_parked(&paused, 1).await;
    assert_eq!(outbound.pending_events().await, 1);
    outbound.receiver.release();
    outbound.until("delivered", 21).await;
    eventually("the event is relayed", PATIENCE, async || match outbound.pending_events().await {
        0 => Ok(()),
        pending => Err(format!("{pending} pending")),
    })
    .await;
    assert_eq!(outbound.attempts(&failing).await.len(), 2);
    assert_eq!(outbound.queued().await, 0.0);
    outbound.change("resume", &paused).await;
    outbound.until("delivered", 22).await;
    assert_eq!(outbound.receiver.count(), 23, "each once, and one that failed");
}

#[tokio::test]
async fn what_there_is_no_room_for_goes_through_the_queue_where_others_take_their_share() {
    let builder =
        World::with().set("CONNECT_WEBHOOK_TIMEOUT", TIMEOUT).set("CONNECT_WEBHOOK_CONCURRENCY", "2");
    let outbound = Outbound::with_dispatchers(2, builder).await;
    outbound.subscribe("/hooks", &[]).await;
    outbound.tell().await;
    outbound.until("delivered", 1).await;
    outbound.receiver.hold();
    outbound.receiver.answer("/hooks", Behaviour::status(204).held());
    outbound.emit(60, "lead.assigned").await;
    // Two at once is what a dispatcher may have under way: more are the other one's.
    outbound.receiver.wait_for(1 + 3).await;
    eventually("deliveries go through the queue", PATIENCE, async || match outbound.queued().await {
        0.0 => Err("none".to_owned()),
        _ => Ok(()),
    })
    .await;
    outbound.receiver.release();
    outbound.until("delivered", 61).await;
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
    let mut outbound = Outbound::without_dispatcher(builder).await;
    outbound.subscribe("/dead", &["--events", "lead.stage_changed"]).await;
    outbound.subscribe("/alive", &["--events", "lead.assigned"]).await;
    let mut settings = outbound.world.settings().to_vec();
    settings.push(("AMQP_URL".to_owned(), "amqp://127.0.0.1:1/%2f".to_owned()));
    let mut lonely = Program::spawn("connect-dispatcher", &settings);
    lonely.until_listening().await;
    outbound.world.dispatchers.push(lonely);
    outbound.emit(1, "lead.assigned").await;
    outbound.until("delivered", 1).await;
    outbound.receiver.hold();
    outbound.receiver.answer("/dead", Behaviour::status(204).held());
    outbound.emit(100, "lead.stage_changed").await;
    outbound.receiver.wait_for_at("/dead", 1).await;
    for told in 1..=20 {
        outbound.emit(10, "lead.assigned").await;
        outbound.receiver.wait_for_at("/alive", 1 + 10 * told).await;
    }
    outbound.until("delivered", 201).await;
    outbound.receiver.release();

    // What waits in the database needs the broker.
    outbound.world.dispatchers.clear();
    outbound.world.add_dispatcher().await;
    outbound.until_within(PATIENCE * 9, "delivered", 301).await;
}

#[tokio::test]
async fn a_drain_in_first_attempts_records_what_has_begun_and_leaves_the_rest_to_the_next() {
    let settings =
        World::with().set("CONNECT_SHUTDOWN_TIMEOUT", "100s").set("CONNECT_WEBHOOK_TIMEOUT", TIMEOUT);
    let mut outbound = Outbound::of(settings).await;
    let subscription = outbound.subscribe("/hooks", &[]).await;
    outbound.receiver.hold();
    outbound.receiver.answer_next("/hooks", [Behaviour::status(204).held()]);
    // A receiver of whom nothing is known gets one at a time: the others wait in its lane, in the queue or in the outbox.
    outbound.emit(30, "lead.assigned").await;
    outbound.receiver.wait_for(1).await;
    outbound.world.dispatchers[0].signal("TERM");
    outbound.world.dispatchers[0].until_unready().await;
    outbound.receiver.release();
    assert_eq!(outbound.world.dispatchers[0].until_ended(PATIENCE).await.code(), Some(0));
    assert!(outbound.count("delivered").await >= 1, "what had begun is on record");

    outbound.world.dispatchers.clear();
    outbound.world.add_dispatcher().await;
    outbound.until("delivered", 30).await;
    outbound.until_settled().await;
    assert_eq!(outbound.receiver.count(), 30, "nothing is repeated");
    let deliveries = outbound.deliveries(&subscription).await;
    let ids: HashSet<&str> = deliveries.iter().map(|delivery| text(&delivery["id"])).collect();
    assert_eq!(ids.len(), 30);
}
