//! Callers of the events route.

use super::caller::{Caller, Retries};
use super::oracle::{Credit, SentEvent, WriteKind};
use crate::event::{Event, batch, event};
use crate::fuzz::random::Random;
use crate::world::text;
use chrono::{DateTime, TimeDelta, Utc};
use common::event::BATCH_MAX;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

/// People whom the callers of a tenant share.
const PEOPLE: usize = 300;
/// Minimum number of groups of events in a large batch, as partners send them in bursts. It has fewer than twice as many.
const LARGE_GROUPS: usize = 40;
/// Maximum number of events of a group.
const GROUP_EVENTS: usize = 3;
/// Event types that need no further data.
const PLAIN: [&str; 7] = [
    "contact.identified", "contact.identified", "trip.planning_started", "trip.draft_updated", "quote.requested",
    "booking.started", "booking.abandoned",
];

/// An event with what must be known of it afterwards.
struct Planned {
    event: Event,
    email: Option<String>,
    /// The booking that it confirms, or whose credit it settles.
    booking: Option<String>,
    /// The number of a balance of credit.
    credit: Option<i64>,
}

/// Sends batches until the run is over.
pub(super) async fn run(mut caller: Caller<'_>) {
    let mut operation = 0;
    while !caller.run.load_ended() {
        send_batch(&mut caller, operation).await;
        operation += 1;
    }
}

async fn send_batch(caller: &mut Caller<'_>, operation: u64) {
    let random = &mut caller.random(operation);
    let tenant = random.below(caller.stack.keys.len());
    let key = &caller.stack.keys[tenant];
    let prefix = format!("{}-{}-{operation}", caller.run.seed, caller.number);
    let planned = plan(random, &prefix, operation);
    let events: Vec<Event> = planned.iter().map(|planned| planned.event.clone().tenant(&key.tenant)).collect();
    let body = batch(&events);
    note_sent(caller, tenant, &planned);
    let retries = if random.once_in(10) { Retries::Never } else { Retries::UntilConfirmed };
    // Some batches are sent again after they were confirmed.
    let times = if random.once_in(8) { 2 } else { 1 };
    for time in 0..times {
        let response = caller.send(random, retries, || key.events(body.clone())).await;
        let Some(response) = response else { return };
        if response.status != 200 {
            return caller.unexpected(&format!("batch {prefix}"), &response);
        }
        note_results(caller, tenant, &planned, &response.json(), time > 0);
    }
}

fn plan(random: &mut Random, prefix: &str, operation: u64) -> Vec<Planned> {
    let groups = match random.below(6) {
        0 | 1 => 1,
        2 | 3 => 1 + random.below(12),
        _ => LARGE_GROUPS + random.below(LARGE_GROUPS),
    };
    let mut planned: Vec<Planned> = Vec::new();
    for group in 0..groups {
        if planned.len() + GROUP_EVENTS > BATCH_MAX {
            break;
        }
        let email = format!("p{}@example.com", random.below(PEOPLE));
        let mut add = |kind: &str, payload: Value, booking: Option<String>, credit: Option<i64>| {
            let id = format!("{prefix}-{}", planned.len());
            let event = event(kind).id(&id).email(&email).payload(payload);
            planned.push(Planned { event, email: Some(email.clone()), booking, credit });
        };
        match random.below(16) {
            0..=2 => add("enquiry.submitted", json!({"destination": "Goa", "paxCount": 2}), None, None),
            3 => {
                let discovery = json!({"discovery": {"destinationInterest": "Goa"}});
                add("traveller.discovery_upserted", discovery, None, None);
            }
            4 => {
                let booking = format!("B-{prefix}-{group}");
                let confirmed = json!({"bookingRef": booking, "amount": 900, "currency": "INR", "creditUsed": 300});
                let applied = json!({"bookingRef": booking, "requestedRupees": 300, "appliedRupees": 200});
                add("enquiry.submitted", json!({}), None, None);
                add("booking.completed", confirmed, Some(booking.clone()), None);
                add("booking.credit_applied", applied, Some(booking), None);
            }
            5 => {
                // Unique for all callers, so that the newest balance is known.
                let number = i64::try_from(operation * 10_000 + random.next() % 10_000).unwrap_or_default();
                let balance = json!({"membershipId": "m", "corporateName": "Example", "availablePaise": number,
                    "grantedPaise": number, "redeemablePercent": 50, "asOf": as_of(number).to_rfc3339()});
                add("employee.credit_updated", balance, None, Some(number));
            }
            6 => {
                let event = event("contact.updated")
                    .id(&format!("{prefix}-{}", planned.len()))
                    .external_id(&format!("nobody-{prefix}-{group}"))
                    .name("Nobody");
                planned.push(Planned { event, email: None, booking: None, credit: None });
            }
            _ => add(random.one_of::<&str>(&PLAIN), json!({}), None, None),
        }
    }
    planned
}

pub(super) fn as_of(number: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::days(10_000) + TimeDelta::seconds(number)
}

fn note_sent(caller: &Caller<'_>, tenant: usize, planned: &[Planned]) {
    let mut oracle = caller.run.oracle();
    for Planned { event, email, booking, credit } in planned {
        let sent = SentEvent { tenant, accepted: 0, ids: None, must_fail: email.is_none() };
        oracle.events.insert(event.event_id().to_owned(), sent);
        if let Some(booking) = booking {
            oracle.note_write(tenant, WriteKind::Booking, booking, None);
        }
        if let (Some(number), Some(email)) = (credit, email) {
            let balances = oracle.credits.entry((tenant, email.clone())).or_default();
            balances.push(Credit { number: *number, is_confirmed: false });
        }
    }
}

fn note_results(caller: &Caller<'_>, tenant: usize, planned: &[Planned], body: &Value, is_resent: bool) {
    let results = body["results"].as_array().cloned().unwrap_or_default();
    let mut oracle = caller.run.oracle();
    if results.len() != planned.len() {
        return oracle.add_violation(format!("{} results of {} events: {body}", results.len(), planned.len()));
    }
    for (planned, result) in planned.iter().zip(&results) {
        oracle.note_result(planned.email.as_deref(), result);
        let is_accepted = result["status"] == "accepted";
        if is_accepted && is_resent {
            oracle.add_violation(format!("accepted again after it was confirmed: {result}"));
        }
        match text(&result["status"]) {
            "accepted" => drop(caller.run.totals.events.fetch_add(1, Ordering::Relaxed)),
            "duplicate" => drop(caller.run.totals.duplicates.fetch_add(1, Ordering::Relaxed)),
            _ => continue,
        }
        if let Some(booking) = &planned.booking {
            oracle.note_write(tenant, WriteKind::Booking, booking, Some(""));
        }
        if let (Some(number), Some(email)) = (planned.credit, &planned.email) {
            let balances = oracle.credits.entry((tenant, email.clone())).or_default();
            for balance in balances.iter_mut().filter(|balance| balance.number == number) {
                balance.is_confirmed = true;
            }
        }
    }
}
