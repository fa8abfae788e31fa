//! What a delivery costs: statements in their round trips, and messages (architecture: Round trips of one delivery).

use super::OutboundWorld;
use std::sync::atomic::{AtomicUsize, Ordering};
use tests::{Behavior, MAX_WAIT, MessageRecorder, Messages, StatementRecorder, World, eventually};

/// Longer than a test takes: no attempt fails because of it.
const TIMEOUT: &str = "600s";
/// The query of the relay, which also runs when nothing is pending.
const READ: [&str; 1] = ["outbox.pending"];
/// Records first attempts.
const RECORD: [&str; 5] = ["BEGIN", "deliveries.record", "attempts.insert", "outbox.relayed", "COMMIT"];
/// Records attempts of events that are relayed already.
const RECORD_OF_RETRY: [&str; 4] = ["BEGIN", "deliveries.record", "attempts.insert", "COMMIT"];
/// Inserts the rows of deliveries that go through the queue.
const ROWS: [&str; 4] = ["BEGIN", "deliveries.record", "outbox.relayed", "COMMIT"];
/// Looks up the deliveries of consumed messages.
const LOOKUP: [&str; 2] = ["deliveries.known", "subscriptions.targets"];
/// Runs without deliveries: gauges, the poll for parked deliveries, and the counts of each minute.
const BACKGROUND: [&str; 10] = [
    "activity_minutes.add",
    "outbox.relayed_page",
    "deliveries.of_relayed",
    "subscriptions.sample",
    "outbox.waiting",
    "deliveries.open",
    "deliveries.ended",
    "deliveries.parked",
    "replay_jobs.open",
    "deliveries.rescue",
];
/// Deliveries under load: fewer than may be under way, and so few that the relay has handed all of them over before the
/// receiver can seem to be slow.
const LOAD: usize = 50;
/// Maximum number of rounds until all connections have prepared all statements.
const ROUNDS: usize = 40;

/// Maximum number of those rounds that may differ from what is expected.
const TRIES: usize = 10;

/// A dispatcher behind recorders.
struct Recorded {
    outbound: OutboundWorld,
    statements: StatementRecorder,
    messages: MessageRecorder,
}

/// What a dispatcher sent for deliveries.
#[derive(Debug)]
struct Sent {
    reads: usize,
    /// The other round trips to Postgres.
    round_trips: Vec<Vec<String>>,
    messages: Messages,
}

impl Recorded {
    async fn start() -> Self {
        let builder = World::with().set("CONNECT_WEBHOOK_TIMEOUT", TIMEOUT);
        let mut outbound = OutboundWorld::without_dispatcher(builder).await;
        let statements = StatementRecorder::in_front_of(outbound.world.database.url());
        let messages = MessageRecorder::in_front_of(outbound.world.queues.url());
        outbound.world.set("DATABASE_URL", statements.url());
        outbound.world.set("AMQP_URL", messages.url());
        outbound.world.add_dispatcher().await;
        Self { outbound, statements, messages }
    }

    /// What the dispatcher sent for `work`, which is repeated until all statements were prepared before.
    async fn sent(&self, work: impl AsyncFnMut()) -> Sent {
        self.sent_as(work, |_| true).await
    }

    /// The same, repeated a few times more until it is as `expected`: a dispatcher that a busy machine keeps from running
    /// takes its receivers for slow, has deliveries go through the queue, and shares fewer round trips.
    async fn sent_as(&self, mut work: impl AsyncFnMut(), expected: impl Fn(&Sent) -> bool) -> Sent {
        let mut tries = 0;
        for _ in 0..ROUNDS {
            self.statements.take("dispatcher");
            self.messages.take();
            work().await;
            self.outbound.until_settled().await;
            let sent = self.gather().await;
            if !sent.round_trips.iter().flatten().any(|statement| statement.starts_with("PREPARE")) {
                tries += 1;
                if tries == TRIES || expected(&sent) {
                    return sent;
                }
            }
        }
        panic!("statements are prepared again and again");
    }

    /// What was sent until now, once all replies have arrived.
    async fn gather(&self) -> Sent {
        let mut sent = Sent { reads: 0, round_trips: Vec::new(), messages: Messages::default() };
        self.add_to(&mut sent);
        let reads_before = sent.reads;
        eventually("all of it was replied to", MAX_WAIT, async || {
            self.add_to(&mut sent);
            let reads = sent.reads - reads_before;
            let is_acknowledged = sent.messages.delivered == 0 || sent.messages.acknowledgements > 0;
            // The second of two reads began after this did: what was committed before has been replied to.
            if reads > 1 && is_acknowledged { Ok(()) } else { Err(format!("{sent:?}")) }
        })
        .await;
        sent
    }

    fn add_to(&self, sent: &mut Sent) {
        let Messages { published, delivered, acknowledgements } = self.messages.take();
        sent.messages.published.extend(published);
        sent.messages.delivered += delivered;
        sent.messages.acknowledgements += acknowledgements;
        for round_trip in self.statements.take("dispatcher") {
            if round_trip.statements == READ {
                sent.reads += 1;
            } else if !round_trip.is_readiness()
                && !round_trip.statements.iter().all(|name| BACKGROUND.contains(&name.as_str()))
            {
                sent.round_trips.push(round_trip.statements);
            }
        }
    }

    fn queue(&self, name: &str) -> String {
        format!("{}.{name}", self.outbound.world.queues.prefix())
    }
}

#[tokio::test]
async fn a_first_attempt_takes_one_read_one_record_and_no_message() {
    let recorded = Recorded::start().await;
    recorded.outbound.subscribe("/hooks", &[]).await;
    let expected = |sent: &Sent| sent.round_trips == [RECORD] && sent.messages == Messages::default();
    let sent = recorded.sent_as(async || drop(recorded.outbound.open_lead().await), expected).await;
    assert!(expected(&sent), "{sent:?}");
}

#[tokio::test]
async fn concurrent_first_attempts_share_records_and_need_no_message() {
    let recorded = Recorded::start().await;
    recorded.outbound.subscribe("/hooks", &[]).await;
    // The receiver now has a history of responding fast.
    recorded.sent(async || drop(recorded.outbound.open_lead().await)).await;
    let load = async || recorded.outbound.insert_outbox_events(LOAD, "lead.assigned").await;
    let expected = |sent: &Sent| sent.round_trips.len() <= LOAD / 4 && sent.messages == Messages::default();
    let sent = recorded.sent_as(load, expected).await;
    assert!(sent.round_trips.iter().all(|round_trip| *round_trip == RECORD), "{sent:?}");
    assert!(expected(&sent), "{} round trips for {LOAD} deliveries: {sent:?}", sent.round_trips.len());
}

#[tokio::test]
async fn a_failed_attempt_adds_one_message_and_its_retry_one_lookup() {
    let recorded = Recorded::start().await;
    recorded.outbound.subscribe("/hooks", &[]).await;
    let fail = async || {
        recorded.outbound.receiver.respond_to_next("/hooks", [Behavior::status(500)]);
        recorded.outbound.open_lead().await;
    };
    let published = vec![recorded.queue("webhooks.retry.1")];
    let messages = Messages { published, delivered: 1, acknowledgements: 1 };
    let round_trips = [&RECORD[..], &LOOKUP[..], &RECORD_OF_RETRY[..]];
    let expected = |sent: &Sent| sent.round_trips == round_trips && sent.messages == messages;
    let sent = recorded.sent_as(fail, expected).await;
    assert!(expected(&sent), "{sent:?}");
}

#[tokio::test]
async fn a_delivery_through_the_queue_adds_one_message_and_one_row() {
    let recorded = Recorded::start().await;
    let (outbound, tries) = (&recorded.outbound, AtomicUsize::new(0));
    let overflow = async || {
        let path = format!("/new/{}", tries.fetch_add(1, Ordering::Relaxed));
        let subscription = outbound.subscribe(&path, &[]).await;
        outbound.receiver.hold();
        outbound.receiver.respond(&path, Behavior::status(204).held());
        outbound.insert_outbox_events(20, "lead.assigned").await;
        outbound.receiver.wait_for_at(&path, 1).await;
        eventually("the others go through the queue", MAX_WAIT, async || {
            let rows = outbound.deliveries(&subscription).await;
            if !rows.is_empty() { Ok(()) } else { Err(format!("{rows:?}")) }
        })
        .await;
        outbound.receiver.release();
        outbound.until_settled().await;
        outbound.change_subscription("remove", &subscription).await;
    };
    let count = |sent: &Sent, statements: &[&str]| {
        sent.round_trips.iter().filter(|round_trip| *round_trip == statements).count()
    };
    let records = |sent: &Sent| count(sent, &RECORD) + count(sent, &RECORD_OF_RETRY);
    // What waits for a slow receiver for too long is parked, which is more than this.
    let nothing_else = |sent: &Sent| {
        count(sent, &ROWS) + count(sent, &LOOKUP) + records(sent) == sent.round_trips.len()
            && sent.messages.delivered == sent.messages.published.len()
    };
    let sent = recorded.sent_as(overflow, nothing_else).await;
    assert!(nothing_else(&sent), "{sent:?}");
    let queued = sent.messages.published.len();
    assert!((1..20).contains(&queued), "some of them were first attempts: {sent:?}");
    assert!(sent.messages.published.iter().all(|to| *to == recorded.queue("webhooks")), "{sent:?}");
    assert!(sent.messages.acknowledgements <= queued, "{sent:?}");
    let is_shared = |round_trips: usize, deliveries: usize| (1..=deliveries).contains(&round_trips);
    let is_shared = is_shared(count(&sent, &ROWS), queued)
        && is_shared(count(&sent, &LOOKUP), queued)
        && is_shared(records(&sent), 20);
    assert!(is_shared, "{sent:?}");
}
