//! Property tests for arbitrary events, however they are ordered, repeated and split into units of work.

use super::simulation::{Loading, Sent, Simulation};
use common::event::{EventResult, EventStatus};
use common::model::Stage;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use uuid::Uuid;

/// Event types that never fail, whatever the order of events.
const NEVER_FAIL: &[&str] = &[
    "contact.identified", "enquiry.submitted", "traveller.discovery_upserted", "trip.planning_started",
    "booking.started", "booking.abandoned", "booking.completed", "employee.credit_updated",
];
const MAY_FAIL: &[&str] = &["contact.updated", "booking.credit_applied"];

/// Actors of a small pool, so that identities collide: emails in different case, some on a company's domain.
fn actor() -> impl Strategy<Value = Value> {
    let emails =
        select(vec!["ana@example.com", "ANA@Example.com", "bob@initech.com", "Bob@Initech.COM", "eve@gmail.com"]);
    let external_ids = select(vec!["x-1", "x-2", "x-3"]);
    let phones = select(vec!["+1 2", "12", "3-4", "34"]);
    let names = select(vec!["Ana", "Bob", "Eve"]);
    let actor = (option::of(emails), option::of(external_ids), option::of(phones), option::of(names));
    actor.prop_filter_map("an identity", |(email, external_id, phone, name)| {
        (email.is_some() || external_id.is_some() || phone.is_some())
            .then(|| json!({"email": email, "externalId": external_id, "phone": phone, "name": name}))
    })
}

/// Fields of all event types at once: each type reads its own. Ids are those that a simulation assigns first.
fn payload() -> impl Strategy<Value = Value> {
    let id = || option::weighted(0.2, (1..60_u128).prop_map(|id| Uuid::from_u128(id).to_string()));
    let names = (id(), id(), id(), option::weighted(0.3, select(vec!["p-1", "p-2"])));
    let booking = (option::weighted(0.6, select(vec!["BR-1", "BR-2", "BR-3"])), option::of(0..300_u32), 0..300_u32);
    let rest = (option::of(-1..9_i32), select(vec!["10:00:00Z", "12:30:00+02:00", "12:00:00+02:00"]), any::<bool>());
    (names, booking, rest).prop_map(|(names, (booking_ref, used, applied), (pax, at, told))| {
        let (lead, trip, discovery, external) = names;
        json!({
            "leadId": lead, "tripId": trip, "externalLeadId": external, "hosTripDiscoveryId": discovery,
            "bookingRef": booking_ref, "creditUsed": used, "appliedRupees": applied, "paxCount": pax,
            "discovery": {"pax": pax}, "essence": told.then_some("Calm."), "message": told.then_some("Hello"),
            "availablePaise": applied, "asOf": format!("2026-05-01T{at}"),
        })
    })
}

fn event(kinds: Vec<&'static str>) -> impl Strategy<Value = Sent> {
    (0..18_u8, select(kinds), actor(), payload()).prop_map(|(id, kind, actor, payload)| Sent {
        id: format!("e-{id}"),
        kind,
        actor,
        payload,
    })
}

/// Events with duplicates: ids come from a small pool.
fn events(kinds: &[&[&'static str]]) -> impl Strategy<Value = Vec<Sent>> {
    vec(event(kinds.concat()), 1..24)
}

fn in_two_orders() -> impl Strategy<Value = (Vec<Sent>, Vec<Sent>)> {
    events(&[NEVER_FAIL]).prop_flat_map(|sent| (Just(sent.clone()), Just(sent).prop_shuffle()))
}

/// Sizes of units; the last one is repeated until all events are applied.
fn sizes() -> impl Strategy<Value = Vec<usize>> {
    vec(1..9_usize, 1..6)
}

fn run(events: &[Sent], sizes: &[usize], loading: Loading) -> (Simulation, Vec<EventResult>) {
    let (mut simulation, mut rest, mut results) = (Simulation::new(), events, Vec::new());
    let mut sizes = sizes.iter().copied();
    let mut size = 1;
    while !rest.is_empty() {
        size = sizes.next().unwrap_or(size);
        let (unit, later) = rest.split_at(size.min(rest.len()));
        results.extend(simulation.unit(unit, loading));
        rest = later;
    }
    (simulation, results)
}

/// Applies two units, once with all rows and once with the needed ones: the results and rows must be the same.
fn both_ways(first: &[Sent], second: &[Sent]) -> Vec<EventResult> {
    let [all, needed] = [Loading::All, Loading::Needed].map(|loading| {
        let mut simulation = Simulation::new();
        simulation.unit(first, loading);
        (simulation.unit(second, loading), format!("{:#?}", simulation.rows))
    });
    assert_eq!(all, needed);
    all.0
}

fn sent(id: &str, kind: &'static str, actor: Value, payload: Value) -> Sent {
    Sent { id: id.to_owned(), kind, actor, payload }
}

fn numbered(count: usize, kind: &'static str, actor: impl Fn(usize) -> Value) -> Vec<Sent> {
    (0..count).map(|i| sent(&format!("{kind}-{i}"), kind, actor(i), json!({}))).collect()
}

#[test]
fn a_unit_can_close_the_open_leads_of_a_client_one_by_one() {
    let ana = |_| json!({"email": "ana@example.com"});
    let results = both_ways(&numbered(4, "enquiry.submitted", ana), &numbered(4, "booking.completed", ana));
    let leads: BTreeSet<_> = results.iter().map(|result| result.lead_id).collect();
    assert_eq!(leads.len(), 4);
}

#[test]
fn a_unit_can_change_a_shared_phone_of_clients_one_by_one() {
    let family = |phone: &'static str| move |i| json!({"email": format!("{i}@example.com"), "phone": phone});
    let mut second = numbered(5, "quote.requested", family("99"));
    second.push(sent("last", "contact.identified", json!({"phone": "1-2"}), json!({})));
    let results = both_ways(&numbered(6, "contact.identified", family("12")), &second);
    assert!(results[..5].iter().all(|result| result.client_id != results[5].client_id));
}

#[test]
fn a_colleague_named_by_another_identity_keeps_the_fields_of_their_entry() {
    let colleague = json!({"email": "bob@initech.com", "externalId": "x-1", "phone": "12"});
    let by_id = sent("b", "contact.updated", json!({"externalId": "x-1", "name": "Bob"}), json!({}));
    both_ways(&[sent("a", "contact.identified", colleague, json!({}))], &[by_id]);
}

fn accepted(results: &[EventResult]) -> BTreeSet<String> {
    results.iter().filter(|r| r.status == EventStatus::Accepted).map(|r| r.event_id.clone()).collect()
}

/// Checks that each accepted event is in the ledger, and once on the timeline.
fn check_ledger_and_timeline(simulation: &Simulation, results: &[EventResult]) {
    let accepted = accepted(results);
    assert_eq!(accepted, simulation.rows.ledger.keys().cloned().collect());
    let mut entries = BTreeMap::new();
    for entry in &simulation.rows.timeline {
        *entries.entry(entry.event_id.clone()).or_insert(0) += 1;
        assert_eq!(Some(entry.client_id), simulation.rows.ledger[&entry.event_id].client_id);
    }
    assert_eq!(entries, accepted.into_iter().map(|id| (id, 1)).collect());
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) }
}

proptest! {
    #![proptest_config(config())]

    // The simulation itself checks at each unit: unique emails and external ids, one trip and one discovery
    // record for a lead, versions that increase, and that enough enquiry numbers were reserved.

    #[test]
    fn in_any_order_the_same_events_are_accepted_once(
        (sent, shuffled) in in_two_orders(),
        (sizes, others) in (sizes(), sizes()),
    ) {
        let (one, first) = run(&sent, &sizes, Loading::All);
        let (other, second) = run(&shuffled, &others, Loading::All);
        let ids: BTreeSet<_> = sent.iter().map(|sent| sent.id.clone()).collect();
        prop_assert_eq!(accepted(&first), ids.clone());
        prop_assert_eq!(accepted(&second), ids);
        check_ledger_and_timeline(&one, &first);
        check_ledger_and_timeline(&other, &second);
    }

    #[test]
    fn in_one_order_the_split_into_units_makes_no_difference(
        sent in events(&[NEVER_FAIL, MAY_FAIL]), (sizes, others) in (sizes(), sizes()),
    ) {
        let (one, first) = run(&sent, &sizes, Loading::All);
        let (other, second) = run(&sent, &others, Loading::All);
        prop_assert_eq!(&first, &second);
        prop_assert_eq!(format!("{:#?}", one.rows), format!("{:#?}", other.rows));
        check_ledger_and_timeline(&one, &first);
    }

    #[test]
    fn loading_only_what_is_needed_gives_the_same_results(
        sent in events(&[NEVER_FAIL, MAY_FAIL]), sizes in sizes(),
    ) {
        let (all, first) = run(&sent, &sizes, Loading::All);
        let (needed, second) = run(&sent, &sizes, Loading::Needed);
        prop_assert_eq!(first, second);
        prop_assert_eq!(format!("{:#?}", all.rows), format!("{:#?}", needed.rows));
    }

    #[test]
    fn a_duplicate_repeats_the_first_results_ids_and_warnings(
        sent in events(&[NEVER_FAIL, MAY_FAIL]), sizes in sizes(),
    ) {
        let (_, results) = run(&sent, &sizes, Loading::All);
        let mut firsts: HashMap<String, EventResult> = HashMap::new();
        for result in results {
            match (firsts.get(&result.event_id), result.status) {
                (Some(first), status) => {
                    prop_assert_eq!(status, EventStatus::Duplicate);
                    prop_assert_eq!(result, EventResult { status, ..first.clone() });
                }
                (None, EventStatus::Accepted) => {
                    firsts.insert(result.event_id.clone(), result);
                }
                (None, EventStatus::Failed) => prop_assert_eq!(result.client_id, None),
                (None, EventStatus::Duplicate) => prop_assert!(false, "a duplicate of nothing"),
            }
        }
    }

    #[test]
    fn a_redelivered_unit_returns_the_same_results_and_changes_nothing(
        (before, sent) in (events(&[NEVER_FAIL]), events(&[NEVER_FAIL])),
    ) {
        let (mut simulation, _) = run(&before, &[5], Loading::All);
        let first = i16::try_from(before.len()).unwrap();
        let results = simulation.unit(&sent, Loading::All);
        let rows = format!("{:#?}", simulation.rows);
        prop_assert_eq!(simulation.redeliver(&sent, first, Loading::Needed), results);
        prop_assert_eq!(format!("{:#?}", simulation.rows), rows);
    }

    #[test]
    fn failed_events_change_nothing(sent in events(&[NEVER_FAIL, MAY_FAIL])) {
        let mut simulation = Simulation::new();
        for event in sent {
            let before = format!("{:#?}", simulation.rows);
            let failed = simulation.unit(&[event], Loading::All)[0].status == EventStatus::Failed;
            let after = format!("{:#?}", simulation.rows);
            prop_assert!(!failed || before == after);
        }
    }

    #[test]
    fn stages_only_move_by_bookings_and_started_never_regresses_one(sent in events(&[NEVER_FAIL, MAY_FAIL])) {
        let mut simulation = Simulation::new();
        for event in sent {
            let before: Vec<_> = simulation.rows.leads.values().map(|lead| (lead.id, lead.stage)).collect();
            let kind = event.kind;
            simulation.unit(&[event], Loading::All);
            for (id, from) in before {
                let to = simulation.rows.leads[&id].stage;
                let allowed = match kind {
                    "booking.started" => to == Stage::ProposalApproved && to.is_further_than(from),
                    "booking.completed" => to == Stage::TripBooked,
                    _ => false,
                };
                prop_assert!(to == from || allowed, "{} moved {} to {}", kind, from, to);
            }
        }
    }
}
