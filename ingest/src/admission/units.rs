//! The work of a request, in backlog units, here called units.

use common::event::{Envelope, InboundType};

/// Bytes of a unit.
const UNIT_BYTES: usize = 4 * 1024;
/// Maximum number of units of one event.
pub(super) const EVENT_UNITS_MAX: u64 = 3;
/// Minimum number of units of a dry run: it is a transaction of its own, which real requests share.
const DRY_RUN_UNITS: u64 = 8;

/// Units of an event of that type: the cost for worker and database relative to a contact event
/// (`make bench ARGS=fairness`).
const fn event_units(event_type: InboundType) -> u64 {
    use InboundType as T;
    match event_type {
        T::EnquirySubmitted
        | T::DiscoveryUpserted
        | T::BookingStarted
        | T::BookingAbandoned
        | T::BookingCompleted
        | T::BookingCreditApplied => EVENT_UNITS_MAX,
        T::ContactIdentified
        | T::ContactUpdated
        | T::TripPlanningStarted
        | T::TripDraftUpdated
        | T::QuoteRequested
        | T::EmployeeCreditUpdated => 1,
    }
}

/// Units of a batch of these events, whose body has so many bytes.
pub(crate) fn batch_units(events: &[Envelope<'_>], bytes: usize, dry_run: bool) -> u64 {
    units(events.iter().map(|event| event_units(event.event_type)).sum(), bytes, dry_run)
}

/// Units of a records write, whose body has so many bytes.
pub(crate) fn write_units(bytes: usize, dry_run: bool) -> u64 {
    units(1, bytes, dry_run)
}

/// The larger of the work and the size.
fn units(work: u64, bytes: usize, dry_run: bool) -> u64 {
    let least = if dry_run { DRY_RUN_UNITS } else { 1 };
    work.max(bytes.div_ceil(UNIT_BYTES) as u64).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::event::read_batch;

    #[test]
    fn a_batch_counts_by_the_types_of_its_events_or_by_its_bytes() {
        let event = |event_type: &str| {
            format!(
                r#"{{"eventId":"e-{event_type}","specVersion":"1.0","eventType":"{event_type}","tenant":"acme","origin":"site","occurredAt":"2026-05-01T10:00:00Z","actor":{{"type":"contact","email":"a@b.example"}}}}"#
            )
        };
        let body = format!(r#"{{"events":[{},{}]}}"#, event("contact.identified"), event("enquiry.submitted"));
        let events = read_batch(body.as_bytes(), "acme").unwrap();
        assert_eq!(batch_units(&events, body.len(), false), 4);
        assert_eq!(batch_units(&events, 5 * UNIT_BYTES + 1, false), 6);
        assert_eq!((write_units(0, false), write_units(3 * UNIT_BYTES, false)), (1, 3));
        assert_eq!((batch_units(&events, body.len(), true), write_units(9 * UNIT_BYTES, true)), (8, 9));
    }
}
