//! What an operator should look at, in words, each with its section of the runbook.

use super::{ActivityMinute, QueueState, last_hour, queue_states};
use crate::queues::waiting_since;
use crate::tenants::{self, Pressure};
use crate::{Result, store};
use chrono::{DateTime, TimeDelta, Utc};
use common::broker::Queue;
use common::clock;
use tokio_postgres::Client;

/// If no program has reported the queues for this long, something is wrong: each reports at least every half minute.
const UNSEEN: TimeDelta = TimeDelta::minutes(1);
/// How long messages and events may wait.
const LATE: TimeDelta = TimeDelta::minutes(1);
/// The latest minutes that are looked at for refusals, failures and requests that timed out.
pub const RECENT: usize = 10;
/// Dead-lettered deliveries that are counted.
const DEAD_MAX: i64 = 1_000;
/// Minimum number of requests or attempts of which a share is meaningful.
const SHARE_OF: i64 = 20;
/// Attempts at webhooks that fail before an agency is told.
const ATTEMPTS: i64 = 5;

/// The runbook's section about requests that get 503 `processing_timeout`.
pub(crate) const TIMED_OUT_SECTION: &str = "Events are late";

/// Something that needs attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attention {
    /// What is wrong, as a sentence.
    pub text: String,
    /// The heading of the runbook's section about it.
    pub runbook: &'static str,
}

/// What the overview knows.
struct Seen {
    now: DateTime<Utc>,
    queues: Vec<QueueState>,
    hour: Vec<ActivityMinute>,
    pressures: Vec<Pressure>,
    /// When the oldest event that waits in the outbox was created.
    outbox: Option<DateTime<Utc>>,
    /// The earliest due time of a delivery.
    due: Option<DateTime<Utc>>,
    /// Dead-lettered deliveries, counted up to [`DEAD_MAX`] and one more.
    dead: i64,
}

/// The page of an agency that tells more about failed attempts at webhooks.
pub const RECEIVERS_PAGE: &str = "/webhooks";

/// What an agency should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgencyAttention {
    /// What is wrong, and what to do, as sentences.
    pub text: String,
    /// The page that tells more, below that of the agency.
    pub page: &'static str,
}

/// What an agency should look at, by the latest of these minutes: requests that were refused or got no answer in time, events that
/// failed, and attempts at webhooks. It disappears when nothing of it happens any more. Pure.
pub fn agency_attention(hour: &[ActivityMinute]) -> Vec<AgencyAttention> {
    let recent = &hour[hour.len().saturating_sub(RECENT)..];
    let sum = |count: fn(&ActivityMinute) -> i64| recent.iter().map(count).sum::<i64>();
    let requests = sum(|minute| minute.accepted + minute.refused);
    let events = sum(|minute| minute.applied + minute.failed);
    let [refused, timed_out, failed] =
        [sum(|minute| minute.refused), sum(|minute| minute.timed_out), sum(|minute| minute.failed)];
    let (undelivered, delivered) = (sum(|minute| minute.undelivered), sum(|minute| minute.delivered));
    let attempts = undelivered + delivered;
    let failing = if undelivered < ATTEMPTS { 0 } else { undelivered };
    let all = [
        (
            refused,
            "/refusals",
            format!(
                "{refused} of {requests} requests were refused in the last {RECENT} minutes. The page tells why."
            ),
        ),
        (
            timed_out,
            "/find",
            format!(
                "{timed_out} requests got 503 in the last {RECENT} minutes. Their senders must repeat them."
            ),
        ),
        (
            failed,
            "/find",
            format!(
                "{failed} of {events} events failed in the last {RECENT} minutes. The response to each names its error."
            ),
        ),
        (
            failing,
            RECEIVERS_PAGE,
            format!("{failing} of {attempts} attempts at webhooks failed in the last {RECENT} minutes."),
        ),
    ];
    all.into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(_, page, text)| AgencyAttention { text, page })
        .collect()
}

/// What needs the attention of operators now. Reads a few rows, and does not ask the broker.
pub async fn attention(client: &Client) -> Result<Vec<Attention>> {
    let seen = Seen {
        now: clock::database_now(),
        queues: queue_states(client).await?,
        hour: last_hour(client, None).await?,
        pressures: tenants::pressures(client).await?,
        outbox: store::activity::oldest_pending(client).await?,
        due: store::activity::oldest_due(client).await?,
        dead: store::activity::dead(client).await?,
    };
    Ok(find_attention(&seen))
}

fn find_attention(seen: &Seen) -> Vec<Attention> {
    let mut found = Vec::new();
    let mut add = |runbook, text| found.push(Attention { text, runbook });
    let newest = seen.queues.iter().map(|state| state.observed_at).max();
    match newest {
        None => add("ConnectProgramDown", "No worker, dispatcher or ingest has looked at the queues yet: start them, and check their connection to RabbitMQ.".to_owned()),
        Some(at) if seen.now - at > UNSEEN => add("ConnectProgramDown", format!(
            "No program has looked at the queues for {}: worker, dispatcher and ingest are down, or RabbitMQ cannot be reached. The figures of queues are from that time.",
            minutes(seen.now - at)
        )),
        Some(_) => {}
    }
    for state in &seen.queues {
        check_queue(seen, state, &mut add);
    }
    for pressure in seen.pressures.iter().filter(|pressure| pressure.refused > 0) {
        add(
            "ConnectBacklogFull",
            format!(
                "Requests of {} to the queue {} are refused with 503, because too much of its work waits: {} in the last second.",
                pressure.tenant, pressure.queue, pressure.refused
            ),
        );
    }
    if let Some(at) = seen.outbox.filter(|at| seen.now - *at > LATE) {
        add(
            "ConnectOutboxStuck",
            format!(
                "The oldest outbound event has waited for {} to be fanned out to its subscriptions.",
                minutes(seen.now - at)
            ),
        );
    }
    if let Some(at) = seen.due.filter(|at| seen.now - *at > LATE) {
        let minutes = minutes(seen.now - at);
        add("ConnectWebhooksLate", format!("A webhook has been due for {minutes} and was not sent."));
    }
    if seen.dead > 0 {
        let (more, dead) = (if seen.dead > DEAD_MAX { "more than " } else { "" }, seen.dead.min(DEAD_MAX));
        add(
            "ConnectDeliveriesDeadLettered",
            format!("Dead-lettered webhooks: {more}{dead}. Correct their receivers, then replay them."),
        );
    }
    if let Some(text) = timed_out_requests(&seen.hour) {
        add(TIMED_OUT_SECTION, text);
    }
    check_shares(&seen.hour, &mut add);
    found
}

/// A time of a minute or more, in whole minutes.
fn minutes(time: TimeDelta) -> String {
    match time.num_minutes() {
        1 => "1 minute".to_owned(),
        minutes => format!("{minutes} minutes"),
    }
}

fn check_queue(seen: &Seen, state: &QueueState, add: &mut impl FnMut(&'static str, String)) {
    let QueueState { queue, ready, consumers, dead, .. } = state;
    let name = queue.as_str();
    if *consumers == 0 {
        add(
            "ConnectNoConsumers",
            format!("No worker consumes the queue {name}. Messages that wait in it: {ready}."),
        );
    }
    let since = waiting_since(state, seen.now).filter(|at| seen.now - *at > LATE);
    if let Some(at) = since {
        let minutes = minutes(seen.now - at);
        add(
            "ConnectQueueLag",
            format!(
                "The oldest message in the queue {name} has waited for up to {minutes}. Messages that wait: {ready}."
            ),
        );
    }
    if *dead > 0 {
        // Notices of webhooks cannot be dropped.
        let or_drop = if *queue == Queue::Webhooks { "" } else { " or drop them" };
        add(
            "ConnectMessagesDeadLettered",
            format!(
                "Dead letters of the queue {name}: {dead}. Correct their cause, then requeue them{or_drop}."
            ),
        );
    }
}

/// What to say if the latest requests got 503 `processing_timeout`. Nothing else in the overview shows a worker that hangs: the broker
/// knows its consumers, and it has received the messages that would wait.
pub(crate) fn timed_out_requests(hour: &[ActivityMinute]) -> Option<String> {
    let recent = &hour[hour.len().saturating_sub(RECENT)..];
    let timed_out: i64 = recent.iter().map(|minute| minute.timed_out).sum();
    (timed_out > 0).then(|| {
        format!(
            "Requests of the last {RECENT} minutes that got 503 processing_timeout: {timed_out}. If the number still grows and nothing waits in the queues, a worker may hang, or RabbitMQ is slow to confirm."
        )
    })
}

/// Whether many of the latest requests were refused, or attempts failed.
fn check_shares(hour: &[ActivityMinute], add: &mut impl FnMut(&'static str, String)) {
    let recent = &hour[hour.len().saturating_sub(RECENT)..];
    let sum = |count: fn(&ActivityMinute) -> i64| recent.iter().map(count).sum::<i64>();
    let (refused, accepted) = (sum(|minute| minute.refused), sum(|minute| minute.accepted));
    if refused + accepted >= SHARE_OF && refused > accepted {
        add(
            "ConnectAuthFailuresSurge",
            format!(
                "{refused} of {} requests with keys were refused in the last {RECENT} minutes. The agencies see the reasons under Refused requests.",
                refused + accepted
            ),
        );
    }
    let (undelivered, delivered) = (sum(|minute| minute.undelivered), sum(|minute| minute.delivered));
    if undelivered + delivered >= SHARE_OF && undelivered > delivered {
        add(
            "ConnectWebhooksFailing",
            format!(
                "{undelivered} of {} attempts at webhooks failed in the last {RECENT} minutes.",
                undelivered + delivered
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> DateTime<Utc> {
        "2026-05-01T10:30:00Z".parse().unwrap()
    }

    fn healthy() -> Seen {
        let ago = |seconds| now() - TimeDelta::seconds(seconds);
        let state = |queue| QueueState {
            queue,
            observed_at: ago(10),
            ready: 3,
            consumers: 1,
            dead: 0,
            published_after: Some(ago(5)),
        };
        let minute =
            ActivityMinute { accepted: 5, refused: 4, delivered: 5, undelivered: 4, ..Default::default() };
        Seen {
            now: now(),
            queues: common::broker::Queue::CONSUMED.map(state).to_vec(),
            hour: vec![minute; super::super::MINUTES],
            pressures: Vec::new(),
            outbox: Some(ago(30)),
            due: Some(ago(30)),
            dead: 0,
        }
    }

    fn sections(seen: &Seen) -> Vec<&'static str> {
        find_attention(seen).into_iter().map(|attention| attention.runbook).collect()
    }

    #[test]
    fn nothing_needs_attention_while_everything_works() {
        assert_eq!(find_attention(&healthy()), []);
    }

    #[test]
    fn each_fault_is_told_with_its_section() {
        let hour_ago = now() - TimeDelta::hours(1);
        let with = |change: fn(&mut Seen, DateTime<Utc>)| {
            let mut seen = healthy();
            change(&mut seen, hour_ago);
            sections(&seen)
        };
        assert_eq!(with(|seen, _| seen.queues.clear()), ["ConnectProgramDown"]);
        let unseen = with(|seen, at| seen.queues.iter_mut().for_each(|state| state.observed_at = at));
        assert_eq!(unseen, ["ConnectProgramDown"]);
        assert_eq!(with(|seen, _| seen.queues[0].consumers = 0), ["ConnectNoConsumers"]);
        assert_eq!(with(|seen, at| seen.queues[1].published_after = Some(at)), ["ConnectQueueLag"]);
        assert_eq!(with(|seen, at| seen.due = Some(at)), ["ConnectWebhooksLate"]);
        assert_eq!(with(|seen, _| seen.queues[2].dead = 1), ["ConnectMessagesDeadLettered"]);
        assert_eq!(with(|seen, _| seen.dead = 1), ["ConnectDeliveriesDeadLettered"]);
        assert_eq!(with(|seen, at| seen.outbox = Some(at)), ["ConnectOutboxStuck"]);
        let refused = with(|seen, _| seen.hour.iter_mut().for_each(|minute| minute.refused = 6));
        assert_eq!(refused, ["ConnectAuthFailuresSurge"]);
        let failing = with(|seen, _| seen.hour.iter_mut().for_each(|minute| minute.undelivered = 6));
        assert_eq!(failing, ["ConnectWebhooksFailing"]);
        assert_eq!(with(|seen, _| seen.hour[59].timed_out = 1), ["Events are late"]);
        assert_eq!(with(|seen, _| seen.hour[49].timed_out = 1), Vec::<&str>::new(), "eleven minutes ago");
        let pressed = with(|seen, at| {
            seen.pressures.push(Pressure {
                tenant: "acme".to_owned(),
                queue: "events".to_owned(),
                waiting: 1,
                refused: 1,
                reported_at: at,
            });
        });
        assert_eq!(pressed, ["ConnectBacklogFull"]);
    }

    #[test]
    fn an_agency_is_told_what_goes_wrong_until_it_has_recovered() {
        let mut hour =
            vec![ActivityMinute { accepted: 5, applied: 9, delivered: 5, ..Default::default() }; 60];
        assert_eq!(agency_attention(&hour), []);
        hour[50] = ActivityMinute { refused: 1, failed: 2, timed_out: 3, ..Default::default() };
        let told = agency_attention(&hour);
        let texts: Vec<_> =
            told.iter().map(|one| (one.page, one.text.split(" in the").next().unwrap())).collect();
        assert_eq!(
            texts,
            [
                ("/refusals", "1 of 46 requests were refused"),
                ("/find", "3 requests got 503"),
                ("/find", "2 of 83 events failed")
            ]
        );
        hour[50].undelivered = 5;
        assert!(agency_attention(&hour)[3].text.starts_with("5 of 50 attempts at webhooks failed"));
        hour.remove(0);
        hour.push(ActivityMinute::default());
        assert_eq!(agency_attention(&hour), [], "eleven minutes ago");
    }

    #[test]
    fn a_queue_whose_messages_cannot_be_dated_is_not_called_late() {
        let mut seen = healthy();
        seen.queues[0].published_after = None;
        assert_eq!(find_attention(&seen), []);
        seen.queues[0].published_after = Some(now() - TimeDelta::hours(1));
        seen.queues[0].ready = 0;
        assert_eq!(find_attention(&seen), [], "nothing waits");
    }

    #[test]
    fn every_section_exists_in_the_runbook() {
        let runbook = include_str!("../../../ops/RUNBOOK.md");
        let mut seen = healthy();
        seen.queues.iter_mut().for_each(|state| {
            (state.consumers, state.dead) = (0, 1);
            state.published_after = Some(now() - TimeDelta::hours(1));
        });
        (seen.outbox, seen.due, seen.dead) =
            (seen.queues[0].published_after, seen.queues[0].published_after, 1_001);
        for minute in &mut seen.hour {
            (minute.refused, minute.undelivered, minute.timed_out) = (9, 9, 9);
        }
        let mut found = sections(&seen);
        found.extend(["ConnectProgramDown", "ConnectBacklogFull"]);
        for section in found {
            assert!(runbook.contains(&format!("## {section}\n")), "{section}");
        }
    }
}
