//! Results of events. The ledger entry of an applied event stores its result, which its duplicates repeat (D7).

use super::{Event, EventEffects, Refusal};
use crate::state::{LedgerEntry, TenantState};
use common::event::{EventResult, EventStatus, TravellerDiscovery};

/// The result of an event that was applied before: its first result again, with the status `duplicate`. If the same message is
/// redelivered, its first reply may be lost, so the status is `accepted` again.
pub(super) fn repeated_result(entry: &LedgerEntry, event: &Event<'_>) -> EventResult {
    let same_message = entry.request_id == event.request_id && entry.ordinal == event.ordinal;
    result(entry, if same_message { EventStatus::Accepted } else { EventStatus::Duplicate })
}

/// Adds an applied event to the ledger and returns its result.
pub(super) fn record_applied(
    state: &mut TenantState,
    event: &Event<'_>,
    applied: EventEffects,
) -> EventResult {
    let entry = LedgerEntry {
        event_id: event.envelope.event_id.clone(),
        event_type: event.envelope.event_type.as_str().to_owned(),
        key_prefix: event.caller.key.as_str().to_owned(),
        request_id: event.request_id,
        ordinal: event.ordinal,
        client_id: Some(applied.client_id),
        lead_id: applied.lead_id,
        trip_id: applied.trip_id,
        discovery_id: applied.discovery_id,
        warnings: applied.warnings.into_vec(),
        trace_id: event.request_context.and_then(|context| context.trace_id_unless(event.request_id)),
    };
    let result = result(&entry, EventStatus::Accepted);
    state.add_to_ledger(entry);
    result
}

/// The result of an event that is not applied. It has no ledger entry, so the same `eventId` can be sent again.
pub(super) fn failed_result(event: &Event<'_>, refusal: &Refusal) -> EventResult {
    EventResult {
        event_id: event.envelope.event_id.clone(),
        status: EventStatus::Failed,
        error: Some(refusal.reason().to_owned()),
        client_id: None,
        lead_id: None,
        trip_id: None,
        warnings: Vec::new(),
        traveller_discovery: None,
    }
}

fn result(entry: &LedgerEntry, status: EventStatus) -> EventResult {
    EventResult {
        event_id: entry.event_id.clone(),
        status,
        error: None,
        client_id: entry.client_id,
        lead_id: entry.lead_id,
        trip_id: entry.trip_id,
        warnings: entry.warnings.clone(),
        traveller_discovery: entry.discovery_id.map(|discovery_id| TravellerDiscovery { discovery_id }),
    }
}

#[cfg(test)]
mod tests {
    use crate::rules::testing::World;
    use common::event::EventStatus;
    use serde_json::json;

    #[test]
    fn a_duplicate_repeats_the_first_result_and_has_no_effect() {
        let mut world = World::new();
        let ana = json!({"email": "ana@example.com"});
        let payload = json!({"discovery": {"pax": -1}});
        let first = world.send_as("d-1", "traveller.discovery_upserted", ana.clone(), payload.clone());
        assert!(first.lead_id.is_some() && first.traveller_discovery.is_some() && !first.warnings.is_empty());
        let before = world.snapshot();
        let mut second = world.send_as("d-1", "traveller.discovery_upserted", ana, payload);
        assert_eq!(second.status, EventStatus::Duplicate);
        second.status = EventStatus::Accepted;
        assert_eq!(second, first);
        assert_eq!(world.snapshot(), before);
    }

    #[test]
    fn the_type_of_a_duplicate_does_not_matter() {
        let mut world = World::new();
        let ana = json!({"email": "ana@example.com"});
        let first = world.send_as("e-1", "enquiry.submitted", ana.clone(), json!({}));
        let second = world.send_as("e-1", "booking.completed", ana, json!({}));
        assert_eq!((second.status, second.lead_id), (EventStatus::Duplicate, first.lead_id));
        assert_eq!(world.stage(first.lead_id.unwrap()), "inquiry");
    }

    #[test]
    fn a_redelivery_of_the_message_that_applied_it_is_accepted_again() {
        let mut world = World::new();
        let ana = json!({"email": "ana@example.com"});
        let first = world.send_as("e-1", "enquiry.submitted", ana.clone(), json!({}));
        let before = world.snapshot();
        world.rewind_message();
        let again = world.send_as("e-1", "enquiry.submitted", ana.clone(), json!({}));
        assert_eq!(again, first);
        assert_eq!(world.snapshot(), before);
        // A second occurrence of the id in the same message is a duplicate, as is one in another message.
        assert_eq!(world.send_as("e-1", "enquiry.submitted", ana, json!({})).status, EventStatus::Duplicate);
    }

    #[test]
    fn a_failed_event_has_no_ledger_entry_and_can_be_resent() {
        let mut world = World::new();
        let ana = json!({"email": "ana@example.com", "name": "Ana"});
        assert_eq!(
            world.send_as("u-1", "contact.updated", ana.clone(), json!({})).status,
            EventStatus::Failed
        );
        world.send("contact.identified", json!({"email": "ana@example.com"}), json!({}));
        assert_eq!(world.send_as("u-1", "contact.updated", ana, json!({})).status, EventStatus::Accepted);
    }

    #[test]
    fn the_ledger_keeps_the_ids_in_the_order_they_were_applied() {
        let mut world = World::new();
        for id in ["z", "a", "z", "m"] {
            world.send_as(id, "contact.identified", json!({"phone": "1"}), json!({}));
        }
        assert_eq!(world.state.ledger_added, ["z", "a", "m"]);
        assert_eq!(world.state.ledger["a"].event_type, "contact.identified");
        assert_eq!(world.state.ledger["a"].key_prefix, "ck_test");
    }
}
