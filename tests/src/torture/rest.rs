//! The end of a run: all faults end, and the programs come to rest, with nothing that waits.

use super::oracle::Run;
use super::plan::PROGRAMS;
use super::stack::Stack;
use super::webhooks::FailingReceiver;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Maximum time that queues, outbox and deliveries may take to be processed.
const AT_REST_WITHIN: Duration = Duration::from_secs(180);
/// Maximum time that the dispatchers may take to compare all events with their deliveries, in small steps.
const COMPARED: Duration = Duration::from_secs(900);
const PAUSE: Duration = Duration::from_millis(500);
/// The queues that must be empty in the end.
const QUEUES: [&str; 8] =
    ["events", "records", "crm", "webhooks", "events.dead", "records.dead", "crm.dead", DEAD_WEBHOOKS];
const DEAD_WEBHOOKS: &str = "webhooks.dead";
/// Deliveries of relayed events that do not exist.
const UNACCOUNTED: &str = "connect_webhook_unaccounted_deliveries";
/// Events that are not relayed, deliveries that wait, dead-lettered deliveries.
const WAITING: &str = "SELECT (SELECT count(*) FROM outbox WHERE relayed_at IS NULL),
    (SELECT count(*) FROM deliveries WHERE state = 'pending'), (SELECT count(*) FROM deliveries WHERE state = 'dead')";

/// Ends all faults, starts what does not run, and waits until all programs are ready.
pub(super) async fn heal(stack: &Stack) {
    for server in [&*stack.postgres, &*stack.broker] {
        server.resume();
        if let Some(disk) = server.disk() {
            disk.free();
        }
        server.start_again().await;
    }
    for (number, slot) in stack.slots.iter().enumerate() {
        slot.postgres.restore();
        slot.broker.restore();
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
        let row = stack.database.connect().await.query_one(WAITING, &[]).await.expect("the numbers");
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
            // Copies of messages that programs left when they were killed, dead-lettered after the replay had begun.
            stack.connectctl.json(&["queue", "requeue", "webhooks", "--dead"]).await;
        }
        sleep(PAUSE).await;
    }
    run.oracle().add_violation(format!("not processed {AT_REST_WITHIN:?} after the faults: {seen}"));
}

/// Waits until each dispatcher has compared all events with their deliveries, and checks that none is missing.
pub(super) async fn check_deliveries_are_accounted_for(stack: &Stack, run: &Run) {
    let dispatchers = || {
        PROGRAMS
            .iter()
            .enumerate()
            .filter(|(_, name)| **name == "connect-dispatcher")
            .map(|(number, _)| number)
    };
    // The gauge ignores a subscription that was created less than a minute before an event, so they are made older.
    stack.database.execute("UPDATE subscriptions SET created_at = created_at - interval '1 hour'").await;
    // A new dispatcher shows no number before it has compared all events.
    for number in dispatchers() {
        stack.end_program(number, false).await;
        stack.start_program(number).await;
    }
    let deadline = Instant::now() + COMPARED;
    for number in dispatchers() {
        until_none_is_missing(stack, run, number, deadline).await;
    }
}

/// Waits until a dispatcher exports that no delivery is missing. It is a violation if it does not.
async fn until_none_is_missing(stack: &Stack, run: &Run, number: usize, deadline: Instant) {
    loop {
        let program = stack.slots[number].program.lock().await;
        let samples = program.as_ref().expect("it was started").metrics().await;
        drop(program);
        let missing = samples.of(UNACCOUNTED).map(|sample| sample.value).next();
        if missing == Some(0.0) {
            return;
        }
        if Instant::now() > deadline {
            let what = format!("{UNACCOUNTED} of {} {number} is {missing:?} at rest", PROGRAMS[number]);
            return run.oracle().add_violation(what);
        }
        sleep(PAUSE).await;
    }
}
