//! What an operator should look at, in words, each with its section of the runbook. One cause has one line: what follows from it is
//! left out.

use super::{
    ActivityMinute, Attention, Place, QueueState, RECENT, counted, last_hour, queue_states, recent, recent_failures,
};
use crate::doctor::Finding;
use crate::queues::waiting_since;
use crate::store::attention::{FailureCause, RunningPrograms};
use crate::tenants::{self, Pressure};
use crate::{Result, store};
use chrono::{DateTime, TimeDelta, Utc};
use common::broker::Queue;
use common::clock;
use common::model::SLOTS;
use tokio_postgres::Client;

/// If no program has reported the queues for this long, something is wrong: each reports at least every half minute.
const UNSEEN: TimeDelta = TimeDelta::minutes(1);
/// How long messages and events may wait.
const LATE: TimeDelta = TimeDelta::minutes(1);
/// Dead-lettered deliveries that are counted.
const DEAD_MAX: i64 = 1_000;
/// Minimum number of requests or attempts of which a share is meaningful.
const SHARE_OF: i64 = 20;
const SLOT_COUNT: i64 = SLOTS as i64;

/// The runbook's section about requests that get 503 `processing_timeout`.
pub(crate) const TIMED_OUT_SECTION: &str = "Events are late";
/// The runbook's section about responses and events that fail because of Connect.
const FAULT_SECTION: &str = "ConnectErrorBudgetBurnsFast";

/// What the console sees of the servers by itself.
#[derive(Clone, Debug, Default)]
pub struct ServerStates {
    /// Why RabbitMQ cannot be used; `None` while it can.
    pub broker: Option<String>,
    /// Certificates that expire soon, and TLS that fails.
    pub certificates: Vec<Finding>,
}

/// What the overview knows.
struct Seen {
    now: DateTime<Utc>,
    running: RunningPrograms,
    queues: Vec<QueueState>,
    hour: Vec<ActivityMinute>,
    failures: Vec<FailureCause>,
    pressures: Vec<Pressure>,
    /// When the oldest event that waits in the outbox was created.
    outbox: Option<DateTime<Utc>>,
    /// The earliest due time of a delivery.
    due: Option<DateTime<Utc>>,
    /// Dead-lettered deliveries, counted up to [`DEAD_MAX`] and one more.
    dead: i64,
}

/// What needs the attention of operators now. Reads a few rows, and does not ask the broker.
pub async fn attention(client: &Client, servers: &ServerStates) -> Result<Vec<Attention>> {
    let seen = Seen {
        now: clock::database_now(),
        running: store::attention::running_programs(client).await?,
        queues: queue_states(client).await?,
        hour: last_hour(client, None).await?,
        failures: recent_failures(client, None).await?,
        pressures: tenants::pressures(client).await?,
        outbox: store::activity::oldest_pending(client).await?,
        due: store::activity::oldest_due(client).await?,
        dead: store::activity::dead(client).await?,
    };
    Ok(find_attention(&seen, servers))
}

fn find_attention(seen: &Seen, servers: &ServerStates) -> Vec<Attention> {
    let mut found = Vec::new();
    let mut add = |section: &'static str, text: String, next: &str| {
        let (cause, place) = (section.to_owned(), Place::Runbook(section));
        found.push(Attention { cause, text, next: next.to_owned(), place, is_mailed: false });
    };
    if let Some(why) = &servers.broker {
        add(
            "ConnectBrokerDisconnected",
            format!("RabbitMQ cannot be used: {why}. Events and records writes get 503."),
            "Start or repair RabbitMQ; the programs reconnect by themselves.",
        );
    }
    let RunningPrograms { ingest, worker, slots } = seen.running;
    let programs = [("connect-ingest", ingest), ("connect-worker", worker), ("connect-dispatcher", slots > 0)];
    let missing: Vec<&str> = programs.iter().filter(|(_, runs)| !runs).map(|(name, _)| *name).collect();
    if !missing.is_empty() {
        add(
            "ConnectProgramMissing",
            format!("No copy of {} works with the database.", missing.join(", or of ")),
            "Start one. If one runs, read its /readyz and its log.",
        );
    }
    if servers.broker.is_none() && missing.len() < programs.len() {
        check_queues(seen, &mut add);
    }
    for pressure in seen.pressures.iter().filter(|pressure| pressure.refused > 0) {
        add(
            "ConnectBacklogFull",
            format!(
                "Requests of {} to the queue {} are refused with 503, because too much of its work waits: {} in the last second.",
                pressure.tenant, pressure.queue, pressure.refused
            ),
            "Start more workers, unless the agency sends more than it should.",
        );
    }
    if slots > 0 {
        check_webhooks(seen, slots, &mut add);
    }
    if seen.dead > 0 {
        let (more, dead) = (if seen.dead > DEAD_MAX { "more than " } else { "" }, seen.dead.min(DEAD_MAX));
        add(
            "ConnectDeliveriesDeadLettered",
            format!("Dead-lettered webhooks: {more}{dead}."),
            "Correct their receivers, then replay them.",
        );
    }
    if servers.broker.is_none() && worker {
        check_responses(seen, &mut add);
    }
    check_shares(&seen.hour, &mut add);
    for Finding { message, fix, .. } in &servers.certificates {
        add("Certificates expire", format!("TLS: {message}."), &format!("{fix}."));
    }
    found
}

/// A time of a minute or more, in whole minutes.
fn minutes(time: TimeDelta) -> String {
    counted(time.num_minutes(), "minute", "minutes")
}

fn check_queues(seen: &Seen, add: &mut impl FnMut(&'static str, String, &str)) {
    let newest = seen.queues.iter().map(|state| state.observed_at).max();
    let look = "Check the connections of worker, dispatcher and ingest to RabbitMQ.";
    match newest {
        None => add("ConnectProgramDown", "No program has looked at the queues yet.".to_owned(), look),
        Some(at) if seen.now - at > UNSEEN => {
            let minutes = minutes(seen.now - at);
            let text = format!("No program has looked at the queues for {minutes}: their figures are from that time.");
            add("ConnectProgramDown", text, look);
        }
        Some(_) => {}
    }
    for QueueState { queue, ready, consumers, dead, .. } in &seen.queues {
        let name = queue.as_str();
        if *consumers == 0 && seen.running.worker {
            let text = format!("No worker consumes the queue {name}. Messages that wait in it: {ready}.");
            add("ConnectNoConsumers", text, "Read the workers' /readyz and logs.");
        }
        if *dead > 0 {
            // Notices of webhooks cannot be dropped.
            let or_drop = if *queue == Queue::Webhooks { "" } else { " or drop them" };
            add(
                "ConnectMessagesDeadLettered",
                format!("Dead letters of the queue {name}: {dead}."),
                &format!("Correct their cause, then requeue them{or_drop}."),
            );
        }
    }
    for state in seen.queues.iter().filter(|_| seen.running.worker) {
        if let Some(at) = waiting_since(state, seen.now).filter(|at| seen.now - *at > LATE) {
            let (name, minutes, ready) = (state.queue.as_str(), minutes(seen.now - at), state.ready);
            add(
                "ConnectQueueLag",
                format!(
                    "The oldest message in the queue {name} has waited for up to {minutes}. Messages that wait: {ready}."
                ),
                "Start more workers, or find out what delays them.",
            );
        }
    }
}

fn check_webhooks(seen: &Seen, slots: i64, add: &mut impl FnMut(&'static str, String, &str)) {
    if slots < SLOT_COUNT {
        let text = format!("No dispatcher holds {} of the {SLOTS} slots.", SLOT_COUNT - slots);
        add("ConnectSlotsWithoutDispatcher", text, "Read the dispatchers' /readyz and logs.");
    }
    if let Some(at) = seen.outbox.filter(|at| seen.now - *at > LATE) {
        let minutes = minutes(seen.now - at);
        add(
            "ConnectOutboxStuck",
            format!("The oldest outbound event has waited for {minutes} to be fanned out to its subscriptions."),
            "Read the dispatchers' logs.",
        );
    }
    if let Some(at) = seen.due.filter(|at| seen.now - *at > LATE) {
        let minutes = minutes(seen.now - at);
        add(
            "ConnectWebhooksLate",
            format!("A webhook has been due for {minutes} and was not sent."),
            "Look for receivers that get more than they take.",
        );
    }
}

/// Requests and events that fail because of Connect.
fn check_responses(seen: &Seen, add: &mut impl FnMut(&'static str, String, &str)) {
    if let Some(text) = timed_out_requests(&seen.failures) {
        add(TIMED_OUT_SECTION, text, "Read /readyz of each worker, and restart those that do not respond.");
    }
    for FailureCause { cause, failed, .. } in &seen.failures {
        let text = match cause.split_once(':') {
            // The other errors of events are their senders'.
            Some(("event", "internal_error")) => {
                format!("{} failed with internal_error", counted(failed, "event", "events"))
            }
            // Told above, or of a tenant whose work waits.
            Some(("response", "processing_timeout")) => continue,
            Some(("response", "overloaded")) if seen.pressures.iter().any(|pressure| pressure.refused > 0) => {
                continue;
            }
            Some(("response", code)) => {
                format!("{} with {code}", counted(failed, "request was answered", "requests were answered"))
            }
            _ => continue,
        };
        add(FAULT_SECTION, format!("{text} in the last {RECENT} minutes."), "Read the logs of worker and ingest.");
    }
}

/// What to say if the latest requests got 503 `processing_timeout`. Nothing else in the overview shows a worker that hangs: the broker
/// knows its consumers, and it has received the messages that would wait.
pub(crate) fn timed_out_requests(failures: &[FailureCause]) -> Option<String> {
    let timed_out = failures.iter().find(|one| one.cause == "response:processing_timeout")?.failed;
    Some(format!(
        "Requests of the last {RECENT} minutes that got 503 processing_timeout: {timed_out}. If the number still grows and nothing waits in the queues, a worker may hang, or RabbitMQ is slow to confirm."
    ))
}

/// Whether many of the latest requests were refused, or attempts failed.
fn check_shares(hour: &[ActivityMinute], add: &mut impl FnMut(&'static str, String, &str)) {
    let (refused, accepted) = (recent(hour, |minute| minute.refused), recent(hour, |minute| minute.accepted));
    if refused + accepted >= SHARE_OF && refused > accepted {
        let all = refused + accepted;
        add(
            "ConnectAuthFailuresSurge",
            format!("{refused} of {all} requests with keys were refused in the last {RECENT} minutes."),
            "The overviews of the agencies name the keys and reasons.",
        );
    }
    let (undelivered, delivered) = (recent(hour, |minute| minute.undelivered), recent(hour, |minute| minute.delivered));
    if undelivered + delivered >= SHARE_OF && undelivered > delivered {
        let all = undelivered + delivered;
        add(
            "ConnectWebhooksFailing",
            format!("{undelivered} of {all} attempts at webhooks failed in the last {RECENT} minutes."),
            "If all receivers fail, restore outbound connectivity; the overviews of the agencies name single ones.",
        );
    }
}

#[cfg(test)]
mod tests;
