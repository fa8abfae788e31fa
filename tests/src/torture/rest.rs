//! The end of a run: all faults end, and the programs come to rest, with nothing that waits.

use super::oracle::Run;
use super::plan::{PROGRAMS, ServerKind};
use super::stack::Stack;
use super::webhooks::FailingReceiver;
use crate::proxy::Proxy;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Maximum time that queues, outbox and deliveries may take to be processed.
const AT_REST_WITHIN: Duration = Duration::from_secs(180);
/// The same for webhooks while RabbitMQ is absent: longer than any other fault that delays them meanwhile.
const SENT_WITHIN: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(500);
/// The queues that must be empty in the end.
const QUEUES: [&str; 7] = ["events", "records", "crm", "events.dead", "records.dead", "crm.dead", DEAD_WEBHOOKS];
const DEAD_WEBHOOKS: &str = "webhooks.dead";
/// Advisor actions that wait and events that are not fanned out, deliveries that wait, dead-lettered deliveries.
const WAITING: &str = "SELECT (SELECT count(*) FROM advisor_actions) + (SELECT count(*) FROM outbox_pending),
    (SELECT count(*) FROM deliveries WHERE state = 'pending'), (SELECT count(*) FROM deliveries WHERE state = 'dead')";

/// Waits until every webhook was sent or has used up its attempts, although RabbitMQ is absent.
pub(super) async fn until_webhooks_are_sent(stack: &Stack, run: &Run) {
    let deadline = Instant::now() + SENT_WITHIN;
    let client = stack.connect().await;
    let mut waiting = (1, 0);
    while waiting != (0, 0) {
        if Instant::now() > deadline {
            run.oracle().add_violation(format!("without RabbitMQ {waiting:?} events and deliveries wait"));
            return;
        }
        sleep(PAUSE).await;
        let row = client.query_one(WAITING, &[]).await.expect("the numbers");
        waiting = (row.get::<_, i64>(0), row.get::<_, i64>(1));
    }
}

/// Ends all faults, starts what does not run, and waits until all programs are ready.
pub(super) async fn heal(stack: &Stack) {
    for server in [stack.server(ServerKind::Postgres), stack.server(ServerKind::Broker)] {
        server.resume();
        if let Some(disk) = server.disk() {
            disk.free();
        }
        server.start_again().await;
    }
    for (number, slot) in stack.slots.iter().enumerate() {
        slot.postgres.iter().chain(&slot.broker).for_each(Proxy::restore);
        stack.signal_program(number, "CONT").await;
    }
    for number in 0..PROGRAMS.len() {
        if stack.slots[number].program.lock().await.is_none() {
            stack.start_program(number).await;
        }
    }
    stack.until_ready().await;
}

/// Waits until nothing waits any more. Dead-lettered deliveries are replayed, as an operator does.
pub(super) async fn until_at_rest(stack: &Stack, run: &Run, receiver: &FailingReceiver) {
    receiver.become_healthy();
    let deadline = Instant::now() + AT_REST_WITHIN;
    let mut seen = String::new();
    while Instant::now() < deadline {
        let row = stack.connect().await.query_one(WAITING, &[]).await.expect("the numbers");
        let (events, pending, dead): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
        let (mut queued, mut has_dead_webhooks) = (Vec::new(), false);
        for queue in QUEUES {
            match stack.queues.depth(queue).await {
                0 => {}
                depth => {
                    queued.push(format!("{depth} messages in {queue}"));
                    has_dead_webhooks |= queue == DEAD_WEBHOOKS;
                }
            }
        }
        if events + pending + dead == 0 && queued.is_empty() {
            return;
        }
        seen = format!("{events} events, {pending} pending deliveries, {dead} dead-lettered; {queued:?}");
        if dead > 0 {
            for key in &stack.keys {
                stack.connectctl.json(&["delivery", "replay", "--dead", "--tenant", &key.tenant]).await;
            }
        } else if has_dead_webhooks {
            // Their deliveries were replayed meanwhile.
            stack.connectctl.json(&["queue", "requeue", "webhooks", "--dead"]).await;
        }
        sleep(PAUSE).await;
    }
    run.oracle().add_violation(format!("not processed {AT_REST_WITHIN:?} after the faults: {seen}"));
}

/// Deliveries whose numbers have a hole, by subscription, and events that are in the log of a subscription twice.
const WRONG_NUMBERS: &str = "
    SELECT subscription_id::text FROM deliveries GROUP BY subscription_id
    HAVING count(*) <> max(number) OR min(number) <> 1 OR count(DISTINCT event_id) <> count(*)";

/// Checks that the numbers of each subscription have no holes.
pub(super) async fn check_numbers(stack: &Stack, run: &Run) {
    for row in stack.connect().await.query(WRONG_NUMBERS, &[]).await.expect("the numbers") {
        let subscription: String = row.get(0);
        run.oracle().add_violation(format!("the deliveries of {subscription} are not numbered without holes"));
    }
}
