//! What an operator should look at, each with its section of the runbook. What follows from another line is left out.

use super::{
    AFTER_DEAD_LETTERS, Attention, LATE, RECENT, dead_lettered, failed_events, failed_responses, is_over, minutes,
    recent, refused_requests, response_codes,
};
use crate::activity::{ActivityMinute, last_hour};
use crate::queues::waiting_since;
use crate::store::activity::QueueState;
use crate::store::attention::{FailureCause, RunningPrograms};
use crate::tenants::{self, Pressure};
use crate::{Result, store};
use chrono::{DateTime, TimeDelta, Utc};
use common::broker::Queue;
use common::model::SLOTS;
use std::collections::BTreeMap;
use tokio_postgres::Client;

/// If no program has reported the queues for this long, something is wrong: each reports at least every half minute.
const UNSEEN: TimeDelta = TimeDelta::minutes(1);
/// Dead-lettered deliveries that are counted.
const DEAD_MAX: i64 = 1_000;
/// Minimum number of requests or attempts of which a share is meaningful: fewer than the alerts need, so that none fires unexplained.
const SHARE_OF: i64 = 20;
const SLOT_COUNT: i64 = SLOTS as i64;

/// The runbook's section about requests that get 503 `processing_timeout`.
const TIMED_OUT_SECTION: &str = "Events are late";
/// The runbook's section about responses and events that fail because of Connect.
const FAULT_SECTION: &str = "ConnectErrorBudgetBurnsFast";

/// What a caller sees of the servers by itself.
#[derive(Clone, Debug, Default)]
pub struct ServerStates {
    /// Why RabbitMQ cannot be used; `None` while it can.
    pub broker: Option<String>,
    /// Certificates that expire soon, and TLS that fails.
    pub certificates: Vec<Attention>,
}

/// What the database tells.
pub(super) struct Seen {
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

impl Seen {
    pub(super) async fn load(client: &Client, failures: Vec<FailureCause>, now: DateTime<Utc>) -> Result<Self> {
        Ok(Self {
            now,
            running: store::attention::running_programs(client).await?,
            queues: store::activity::queue_states(client).await?,
            hour: last_hour(client, None).await?,
            failures,
            pressures: tenants::pressures(client).await?,
            outbox: store::activity::oldest_pending(client).await?,
            due: store::activity::oldest_due(client).await?,
            dead: store::activity::dead(client).await?,
        })
    }

    pub(super) fn lines(&self, servers: &ServerStates) -> Vec<Attention> {
        let mut found = Vec::new();
        let mut add = |section: &'static str, text: String, next: &str| {
            found.push(Attention::of_installation(section, text, next));
        };
        if let Some(why) = &servers.broker {
            let text = format!("RabbitMQ cannot be used: {why}. Events and records writes get 503.");
            let next = "Start or repair RabbitMQ; the programs reconnect by themselves.";
            add("ConnectBrokerDisconnected", text, next);
        }
        let RunningPrograms { ingest, worker, slots, may_connect } = self.running;
        let programs = [("connect-ingest", ingest), ("connect-worker", worker), ("connect-dispatcher", slots > 0)];
        let missing: Vec<&str> = programs.iter().filter(|(_, runs)| !runs).map(|(name, _)| *name).collect();
        if !missing.is_empty() && !may_connect {
            let text = format!("No copy of {} works with the database.", missing.join(", or of "));
            add("ConnectProgramMissing", text, "Start one. If one runs, read its /readyz and its log.");
        }
        if servers.broker.is_none() && missing.len() < programs.len() && !may_connect {
            self.check_queues(&mut add);
        }
        for pressure in self.pressures.iter().filter(|pressure| worker && pressure.refused > 0) {
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
            self.check_webhooks(slots, &mut add);
        }
        if self.dead > 0 {
            let text = dead_lettered(self.dead.min(DEAD_MAX), self.dead > DEAD_MAX);
            add("ConnectDeliveriesDeadLettered", text, AFTER_DEAD_LETTERS);
        }
        if servers.broker.is_none() && worker {
            self.check_responses(&mut add);
        }
        self.check_shares(&mut add);
        found.extend_from_slice(&servers.certificates);
        found
    }

    fn check_queues(&self, add: &mut impl FnMut(&'static str, String, &str)) {
        let newest = self.queues.iter().map(|state| state.observed_at).max();
        let look = "Check the connections of worker, dispatcher and ingest to RabbitMQ.";
        match newest {
            None => add("ConnectProgramDown", "No program has looked at the queues yet.".to_owned(), look),
            Some(at) if self.now - at > UNSEEN => {
                let minutes = minutes(self.now - at);
                let text =
                    format!("No program has looked at the queues for {minutes}: their figures are from that time.");
                add("ConnectProgramDown", text, look);
            }
            Some(_) => {}
        }
        for QueueState { queue, ready, consumers, dead, .. } in &self.queues {
            let name = queue.as_str();
            if *consumers == 0 && *ready > 0 && self.running.worker {
                let text = format!("No worker consumes the queue {name}. Messages that wait in it: {ready}.");
                add("ConnectNoConsumers", text, "Read the workers' /readyz and logs.");
            }
            if *dead > 0 {
                // Notices of webhooks cannot be dropped.
                let or_drop = if *queue == Queue::Webhooks { "" } else { " or drop them" };
                let next = format!("Correct their cause, then requeue them{or_drop}.");
                add("ConnectMessagesDeadLettered", format!("Dead letters of the queue {name}: {dead}."), &next);
            }
        }
        for state in self.queues.iter().filter(|_| self.running.worker) {
            if let Some(at) = waiting_since(state, self.now).filter(|at| self.now - *at > LATE) {
                let (name, minutes, ready) = (state.queue.as_str(), minutes(self.now - at), state.ready);
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

    fn check_webhooks(&self, slots: i64, add: &mut impl FnMut(&'static str, String, &str)) {
        if slots < SLOT_COUNT {
            let text = format!("No dispatcher holds {} of the {SLOTS} slots.", SLOT_COUNT - slots);
            add("ConnectSlotsWithoutDispatcher", text, "Read the dispatchers' /readyz and logs.");
        }
        if let Some(at) = self.outbox.filter(|at| self.now - *at > LATE) {
            let minutes = minutes(self.now - at);
            let text =
                format!("The oldest outbound event has waited for {minutes} to be fanned out to its subscriptions.");
            add("ConnectOutboxStuck", text, "Read the dispatchers' logs.");
        }
        if let Some(at) = self.due.filter(|at| self.now - *at > LATE) {
            let text = format!("A webhook has been due for {} and was not sent.", minutes(self.now - at));
            add("ConnectWebhooksLate", text, "Look for receivers that get more than they take.");
        }
    }

    /// Requests and events that fail because of Connect.
    fn check_responses(&self, add: &mut impl FnMut(&'static str, String, &str)) {
        let mut codes = response_codes(&self.failures);
        if let Some(timed_out) = codes.remove("processing_timeout") {
            // Nothing else shows a worker that hangs: the broker knows its consumers, and it has received the messages that would wait.
            add(
                TIMED_OUT_SECTION,
                failed_responses(&BTreeMap::from([("processing_timeout", timed_out)])),
                "If the number still grows and nothing waits in the queues, a worker may hang, or RabbitMQ is slow to confirm. Read /readyz of each worker, and restart those that do not respond.",
            );
        }
        // Told of a tenant whose work waits.
        if self.pressures.iter().any(|pressure| pressure.refused > 0) {
            codes.remove("overloaded");
        }
        let next = "Read the logs of worker and ingest.";
        if !codes.is_empty() {
            add(FAULT_SECTION, failed_responses(&codes), next);
        }
        // The other errors of events are their senders'.
        for one in self.failures.iter().filter(|one| one.cause == "event:internal_error") {
            add(FAULT_SECTION, failed_events(one, &self.hour), next);
        }
    }

    /// Whether many of the latest requests were refused, or attempts failed, and still some do.
    fn check_shares(&self, add: &mut impl FnMut(&'static str, String, &str)) {
        let sum = |count: fn(&ActivityMinute) -> i64| recent(&self.hour, count);
        let (refused, accepted) = (sum(|minute| minute.refused), sum(|minute| minute.accepted));
        if refused + accepted >= SHARE_OF && refused > accepted && !is_over(&self.hour, |minute| minute.refused) {
            let next = "The overviews of the agencies name the keys and reasons.";
            add("ConnectAuthFailuresSurge", refused_requests(refused, accepted), next);
        }
        let (undelivered, delivered) = (sum(|minute| minute.undelivered), sum(|minute| minute.delivered));
        let all = undelivered + delivered;
        // A fifth, as for the alert.
        if all >= SHARE_OF && undelivered * 5 > all && !is_over(&self.hour, |minute| minute.undelivered) {
            let text = format!("{undelivered} of {all} attempts at webhooks failed in the last {RECENT} minutes.");
            let next =
                "If all fail, restore outbound connectivity; the overviews of the agencies name single receivers.";
            add("ConnectWebhooksFailing", text, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Place;
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
        let minute = ActivityMinute { accepted: 5, refused: 4, delivered: 5, undelivered: 1, ..Default::default() };
        Seen {
            now: now(),
            running: RunningPrograms { ingest: true, worker: true, slots: SLOT_COUNT, may_connect: false },
            failures: Vec::new(),
            queues: common::broker::Queue::CONSUMED.map(state).to_vec(),
            hour: vec![minute; crate::activity::MINUTES],
            pressures: Vec::new(),
            outbox: Some(ago(30)),
            due: Some(ago(30)),
            dead: 0,
        }
    }

    fn pressure(reported_at: DateTime<Utc>) -> Pressure {
        Pressure { tenant: "acme".to_owned(), queue: "events".to_owned(), waiting: 1, refused: 1, reported_at }
    }

    fn failed(cause: &str) -> FailureCause {
        FailureCause { cause: cause.to_owned(), failed: 1, ..FailureCause::default() }
    }

    fn sections(seen: &Seen) -> Vec<&'static str> {
        let of = |attention: Attention| match attention.place {
            Place::Runbook(section) => section,
            Place::Page(page) => panic!("{page}"),
        };
        seen.lines(&ServerStates::default()).into_iter().map(of).collect()
    }

    #[test]
    fn nothing_needs_attention_while_everything_works() {
        assert_eq!(sections(&healthy()), Vec::<&str>::new());
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
        let failing = with(|seen, _| seen.hour.iter_mut().for_each(|minute| minute.undelivered = 2));
        assert_eq!(failing, ["ConnectWebhooksFailing"]);
        let over = with(|seen, _| {
            seen.hour.fill(ActivityMinute { refused: 99, undelivered: 99, ..Default::default() });
            seen.hour[57..].fill(ActivityMinute::default());
        });
        assert_eq!(over, Vec::<&str>::new());
        assert_eq!(with(|seen, _| (seen.queues[0].consumers, seen.queues[0].ready) = (0, 0)), Vec::<&str>::new());
        assert_eq!(with(|seen, _| seen.queues[0].published_after = None), Vec::<&str>::new());
        let empty = with(|seen, at| (seen.queues[0].published_after, seen.queues[0].ready) = (Some(at), 0));
        assert_eq!(empty, Vec::<&str>::new(), "nothing waits");
        assert_eq!(with(|seen, at| seen.pressures.push(pressure(at))), ["ConnectBacklogFull"]);
        assert_eq!(with(|seen, _| seen.running.slots = 63), ["ConnectSlotsWithoutDispatcher"]);
        for (cause, expected) in [
            ("event:internal_error", &[FAULT_SECTION][..]),
            ("response:overloaded", &[FAULT_SECTION][..]),
            ("event:contact_not_found", &[][..]),
            ("response:processing_timeout", &[TIMED_OUT_SECTION][..]),
        ] {
            let mut seen = healthy();
            seen.failures = vec![failed(cause)];
            assert_eq!(sections(&seen), expected, "{cause}");
        }
    }

    #[test]
    fn what_follows_from_a_missing_program_or_server_is_not_told() {
        let mut seen = healthy();
        seen.queues.iter_mut().for_each(|state| {
            state.consumers = 0;
            state.published_after = Some(now() - TimeDelta::hours(1));
        });
        (seen.due, seen.outbox) = (seen.queues[0].published_after, seen.queues[0].published_after);
        seen.failures = vec![failed("response:processing_timeout")];
        assert_eq!(sections(&seen).len(), 9, "three queues without consumers, three late ones, webhooks, requests");
        seen.running = RunningPrograms { ingest: true, worker: false, slots: 0, may_connect: false };
        seen.pressures.push(pressure(now()));
        assert_eq!(sections(&seen), ["ConnectProgramMissing"]);
        seen.running.may_connect = true;
        assert_eq!(sections(&seen), Vec::<&str>::new());
        seen.running.may_connect = false;
        seen.pressures.clear();
        (seen.running.slots, seen.running.worker) = (SLOT_COUNT, true);
        (seen.due, seen.outbox) = (None, None);
        let servers = ServerStates { broker: Some("no route".to_owned()), certificates: Vec::new() };
        let found = seen.lines(&servers);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].text.contains("no route"), "{found:?}");
    }

    #[test]
    fn certificates_that_expire_soon_are_told_even_while_rabbitmq_is_down() {
        let text = "TLS: the certificate of db.example:5432 expires at 2026-05-09T00:00:00+00:00.".to_owned();
        let expiring = Attention::of_installation("Certificates expire", text, "Renew the certificate at the server.");
        let mut servers = ServerStates { broker: None, certificates: vec![expiring.clone()] };
        assert_eq!(healthy().lines(&servers), servers.certificates);
        servers.broker = Some("no route".to_owned());
        assert_eq!(healthy().lines(&servers).last(), Some(&expiring));
    }

    #[test]
    fn every_section_exists_in_the_runbook() {
        let runbook = include_str!("../../../ops/RUNBOOK.md");
        let mut seen = healthy();
        seen.queues.iter_mut().for_each(|state| {
            (state.consumers, state.dead) = (0, 1);
            state.published_after = Some(now() - TimeDelta::hours(1));
        });
        (seen.outbox, seen.due, seen.dead) = (seen.queues[0].published_after, seen.queues[0].published_after, 1_001);
        for minute in &mut seen.hour {
            (minute.refused, minute.undelivered) = (9, 9);
        }
        let mut found = sections(&seen);
        found.extend(["ConnectProgramDown", "ConnectBacklogFull", "ConnectProgramMissing", FAULT_SECTION]);
        found.extend(["ConnectSlotsWithoutDispatcher", "ConnectBrokerDisconnected", "Certificates expire"]);
        let unreachable = Attention::database_unreachable();
        for section in found.into_iter().chain([TIMED_OUT_SECTION, &unreachable.cause]) {
            assert!(runbook.contains(&format!("## {section}\n")), "{section}");
        }
    }
}
