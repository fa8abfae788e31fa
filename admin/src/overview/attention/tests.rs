//! What operators are told.

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
    let minute = ActivityMinute { accepted: 5, refused: 4, delivered: 5, undelivered: 4, ..Default::default() };
    Seen {
        now: now(),
        running: RunningPrograms { ingest: true, worker: true, slots: SLOT_COUNT },
        failures: Vec::new(),
        queues: common::broker::Queue::CONSUMED.map(state).to_vec(),
        hour: vec![minute; super::super::MINUTES],
        pressures: Vec::new(),
        outbox: Some(ago(30)),
        due: Some(ago(30)),
        dead: 0,
    }
}

fn failed(cause: &str) -> FailureCause {
    FailureCause { cause: cause.to_owned(), failed: 1, ..FailureCause::default() }
}

fn sections(seen: &Seen) -> Vec<&'static str> {
    let of = |attention: Attention| match attention.place {
        Place::Runbook(section) => section,
        Place::Page(page) => panic!("{page}"),
    };
    find_attention(seen, &ServerStates::default()).into_iter().map(of).collect()
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
    let failing = with(|seen, _| seen.hour.iter_mut().for_each(|minute| minute.undelivered = 6));
    assert_eq!(failing, ["ConnectWebhooksFailing"]);
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
    seen.running = RunningPrograms { ingest: true, worker: false, slots: 0 };
    assert_eq!(sections(&seen), ["ConnectProgramMissing"]);
    seen.running.slots = SLOT_COUNT;
    (seen.due, seen.outbox) = (None, None);
    seen.running.worker = true;
    let servers = ServerStates { broker: Some("no route".to_owned()), certificates: Vec::new() };
    let found = find_attention(&seen, &servers);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].text.contains("no route"), "{found:?}");
}

#[test]
fn a_queue_whose_messages_cannot_be_dated_is_not_called_late() {
    let mut seen = healthy();
    seen.queues[0].published_after = None;
    assert_eq!(sections(&seen), Vec::<&str>::new());
    seen.queues[0].published_after = Some(now() - TimeDelta::hours(1));
    seen.queues[0].ready = 0;
    assert_eq!(sections(&seen), Vec::<&str>::new(), "nothing waits");
}

#[test]
fn every_section_exists_in_the_runbook() {
    let runbook = include_str!("../../../../ops/RUNBOOK.md");
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
    for section in found.into_iter().chain([TIMED_OUT_SECTION]) {
        assert!(runbook.contains(&format!("## {section}\n")), "{section}");
    }
}
