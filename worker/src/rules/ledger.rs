//! Results of events. The ledger entry of an applied event stores its result, which its duplicates repeat (D7).

use super::{Event, EventEffects, Refusal, warnings};
use crate::state::{LedgerEntry, TenantState};
use common::event::{EventResult, EventStatus, TravellerDiscovery, WarningDetail};

/// The result of an event that was applied before: its first result again, with the status `duplicate`. If the same message is
/// redelivered, its first reply may be lost, so the status is `accepted` again.
pub(super) fn repeated_result(entry: &LedgerEntry, event: &Event<'_>) -> EventResult {
    let same_message = entry.request_id == event.request_context.request_id && entry.ordinal == event.ordinal;
    result(entry, if same_message { EventStatus::Accepted } else { EventStatus::Duplicate })
}

/// Adds an applied event to the ledger and returns its result.
pub(super) fn record_applied(state: &mut TenantState, event: &Event<'_>, applied: EventEffects) -> EventResult {
    let entry = LedgerEntry {
        event_id: event.envelope.event_id.clone(),
        event_type: event.envelope.event_type.as_str().to_owned(),
        key_prefix: event.caller.key.as_str().to_owned(),
        request_id: event.request_context.request_id,
        ordinal: event.ordinal,
        client_id: Some(applied.client_id),
        lead_id: applied.lead_id,
        trip_id: applied.trip_id,
        discovery_id: applied.discovery_id,
        warnings: applied.warnings.into_vec(),
        trace_id: event.request_context.foreign_trace_id(),
    };
    let result = result(&entry, EventStatus::Accepted);
    state.add_to_ledger(entry);
    result
}

/// The result of an event that is not applied. It has no ledger entry, so the same `eventId` can be sent again.
pub(super) fn failed_result(event: &Event<'_>, refusal: &Refusal) -> EventResult {
    EventResult::failed(&event.envelope.event_id, refusal.reason())
}

fn result(entry: &LedgerEntry, status: EventStatus) -> EventResult {
    let detail = |warning: &String| WarningDetail { warning: warning.clone(), reason: warnings::reason(warning) };
    EventResult {
        event_id: entry.event_id.clone(),
        status,
        error: None,
        client_id: entry.client_id,
        lead_id: entry.lead_id,
        trip_id: entry.trip_id,
        warnings: entry.warnings.clone(),
        warning_details: entry.warnings.iter().map(detail).collect(),
        traveller_discovery: entry.discovery_id.map(|discovery_id| TravellerDiscovery { discovery_id }),
    }
}
