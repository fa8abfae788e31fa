//! What a delivery costs: statements in their round trips, and messages (architecture: Round trips of one delivery).

use super::Outbound;
use std::sync::atomic::{AtomicUsize, Ordering};
use tests::{Behaviour, MessageRecorder, Messages, PATIENCE, StatementRecorder, World, eventually};

/// Longer than a test takes: no attempt fails because of it.
const TIMEOUT: &str = "100s";
/// What the relay reads, also when nothing is pending.
const READ: [&str; 1] = ["outbox.pending"];
/// The record of first attempts.
const RECORD: [&str; 5] = ["BEGIN", "deliveries.conclude", "attempts.insert", "outbox.relayed", "COMMIT"];
/// The record of attempts whose event is on record already.
const RECORD_OF_RETRY: [&str; 4] = ["BEGIN", "deliveries.conclude", "attempts.insert", "COMMIT"];
/// The rows of deliveries that go through the queue.
const ROWS: [&str; 4] = ["BEGIN", "deliveries.conclude", "outbox.relayed", "COMMIT"];
/// What is looked up for messages of the queue.
const LOOK_UP: [&str; 2] = ["deliveries.known", "subscriptions.targets"];
/// What goes on without deliveries: gauges, and the look at parked deliveries.
const BACKGROUND: [&str; 6] = [
    "subscriptions.sample",
    "outbox.waiting",
    "deliveries.open",
    "deliveries.ended",
    "deliveries.parked",
    "deliveries.rescue",
];
/// Deliveries under load: fewer than may be under way, and so few that the relay has handed all of them over before the
/// receiver can seem to be slow.
const LOAD: usize = 50;
/// Most rounds until all connections know all statements.
const ROUNDS: usize = 40;

/// Most of those rounds that may differ from what is expected.
const TRIES: usize = 10;

/// A dispatcher behind recorders.
struct Recorded {
    outbound: Outbound,
    statements: StatementRecorder,
    messages: MessageRecorder,
}

/// What a dispatcher sent for deliveries.
#[derive(Debug)]
struct Sent {
    reads: usize,
    /// The other round trips to Postgres.
    flights: Vec<Vec<String>>,
    messages: Messages,
}

impl Recorded {
    async fn start() -> Self {
        let builder = World::with().set("CONNECT_WEBHOOK_TIMEOUT", TIMEOUT);
        let mut outbound = Outbound::without_dispatcher(builder).await;
        let statements = StatementRecorder::before(outbound.world.database.url());
        let messages = MessageRecorder::before(outbound.world.queues.url());
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
            if !sent.flights.iter().flatten().any(|statement| statement.starts_with("PREPARE")) {
                tries += 1;
                if tries == TRIES || expected(&sent) {
                    return sent;
                }
            }
        }
        panic!("statements are prepared again and again");
    }

    /// What was sent until now, with its replies.
    async fn gather(&self) -> Sent {
        let mut sent = Sent { reads: 0, flights: Vec::new(), messages: Messages::default() };
        self.add_to(&mut sent);
        let reads_before = sent.reads;
        eventually("all of it was replied to", PATIENCE, async || {
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
        for flight in self.statements.take("dispatcher") {
            if flight.statements == READ {
                sent.reads += 1;
            } else if !flight.is_readiness()
                && !flight.statements.iter().all(|name| BACKGROUND.contains(&name.as_str()))
            {
                sent.flights.push(flight.statements);
            }
        }
    }

    fn queue(&self, name: &str) -> String {
        format!("{}.{name}", self.outbound.world.queues.prefix())
    }
}

#[tokio::test]
async fn a_first_attempt_at_rest_is_a_read_and_a_record_and_no_message() {
    let recorded = Recorded::start().await;
    recorded.outbound.subscribe("/hooks", &[]).await;
    let expected = |sent: &Sent| sent.flights == [RECORD] && sent.messages == Messages::default();
    let sent = recorded.sent_as(async || drop(recorded.outbound.tell().await), expected).await;
    assert!(expected(&sent), "{sent:?}");
}

#[tokio::test]
async fn first_attempts_under_load_share_their_records_and_need_no_message() {
    let recorded = Recorded::start().await;
    recorded.outbound.subscribe("/hooks", &[]).await;
    // A receiver that has proved to respond soon.
    recorded.sent(async || drop(recorded.outbound.tell().await)).await;
    let load = async || recorded.outbound.emit(LOAD, "lead.assigned").await;
    let expected = |sent: &Sent| sent.flights.len() <= LOAD / 4 && sent.messages == Messages::default();
    let sent = recorded.sent_as(load, expected).await;
    assert!(sent.flights.iter().all(|flight| *flight == RECORD), "{sent:?}");
    assert!(expected(&sent), "{} round trips for {LOAD} deliveries: {sent:?}", sent.flights.len());
}

#[tokio::test]
async fn a_failed_attempt_is_one_message_and_its_retry_one_look_up_more() {
    let recorded = Recorded::start().await;
    recorded.outbound.subscribe("/hooks", &[]).await;
    let fail = async || {
        recorded.outbound.receiver.answer_next("/hooks", [Behaviour::status(500)]);
        recorded.outbound.tell().await;
    };
    let published = vec![recorded.queue("webhooks.retry.1")];
    let messages = Messages { published, delivered: 1, acknowledgements: 1 };
    let flights = [&RECORD[..], &LOOK_UP[..], &RECORD_OF_RETRY[..]];
    let expected = |sent: &Sent| sent.flights == flights && sent.messages == messages;
    let sent = recorded.sent_as(fail, expected).await;
    assert!(expected(&sent), "{sent:?}");
}

#[tokio::test]
async fn a_delivery_through_the_queue_is_one_message_and_one_row_more() {
    let recorded = Recorded::start().await;
    let (outbound, tries) = (&recorded.outbound, AtomicUsize::new(0));
    let overflow = async || {
        let path = format!("/new/{}", tries.fetch_add(1, Ordering::Relaxed));
        let subscription = outbound.subscribe(&path, &[]).await;
        outbound.receiver.hold();
        outbound.receiver.answer(&path, Behaviour::status(204).held());
        outbound.emit(20, "lead.assigned").await;
        outbound.receiver.wait_for_at(&path, 1).await;
        eventually("the others go through the queue", PATIENCE, async || {
            let rows = outbound.deliveries(&subscription).await;
            if !rows.is_empty() { Ok(()) } else { Err(format!("{rows:?}")) }
        })
        .await;
        outbound.receiver.release();
        outbound.until_settled().await;
        outbound.change("remove", &subscription).await;
    };
    let count =
        |sent: &Sent, statements: &[&str]| sent.flights.iter().filter(|flight| *flight == statements).count();
    let records = |sent: &Sent| count(sent, &RECORD) + count(sent, &RECORD_OF_RETRY);
    // What waits for a slow receiver for too long is parked, which is more than this.
    let nothing_else = |sent: &Sent| {
        count(sent, &ROWS) + count(sent, &LOOK_UP) + records(sent) == sent.flights.len()
            && sent.messages.delivered == sent.messages.published.len()
    };
    let sent = recorded.sent_as(overflow, nothing_else).await;
    assert!(nothing_else(&sent), "{sent:?}");
    let queued = sent.messages.published.len();
    assert!((1..20).contains(&queued), "some of them were first attempts: {sent:?}");
    assert!(sent.messages.published.iter().all(|to| *to == recorded.queue("webhooks")), "{sent:?}");
    assert!(sent.messages.acknowledgements <= queued, "{sent:?}");
    let is_shared = |flights: usize, deliveries: usize| (1..=deliveries).contains(&flights);
    let is_shared = is_shared(count(&sent, &ROWS), queued)
        && is_shared(count(&sent, &LOOK_UP), queued)
        && is_shared(records(&sent), 20);
    assert!(is_shared, "{sent:?}");
}
