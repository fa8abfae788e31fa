//! A schema for each inbound event type, with its payload, and the union of them: what callers should send.
//!
//! The events route accepts more: a payload that does not match is read as far as possible (D15). `InboundEvent` describes that.

use super::{events, payloads};
use crate::openapi::schema::{Schema, constant, of_type, one_by_field, reference};
use common::event::InboundType;

/// The union, and the types that it consists of.
pub(super) fn all() -> Vec<(&'static str, Schema)> {
    let types = InboundType::ALL.iter().map(|kind| (name(*kind), event(*kind)));
    [("Event", union()), (UNREAD, unread())].into_iter().chain(types).collect()
}

/// The payload of the types of which no field is read.
const UNREAD: &str = "UnreadPayload";

/// The name of a type's schema.
pub(crate) const fn name(kind: InboundType) -> &'static str {
    match kind {
        InboundType::ContactIdentified => "ContactIdentifiedEvent",
        InboundType::ContactUpdated => "ContactUpdatedEvent",
        InboundType::EnquirySubmitted => "EnquirySubmittedEvent",
        InboundType::DiscoveryUpserted => "DiscoveryUpsertedEvent",
        InboundType::TripPlanningStarted => "TripPlanningStartedEvent",
        InboundType::TripDraftUpdated => "TripDraftUpdatedEvent",
        InboundType::QuoteRequested => "QuoteRequestedEvent",
        InboundType::BookingStarted => "BookingStartedEvent",
        InboundType::BookingAbandoned => "BookingAbandonedEvent",
        InboundType::BookingCompleted => "BookingCompletedEvent",
        InboundType::BookingCreditApplied => "BookingCreditAppliedEvent",
        InboundType::EmployeeCreditUpdated => "EmployeeCreditUpdatedEvent",
    }
}

fn union() -> Schema {
    one_by_field("eventType", InboundType::ALL.iter().map(|kind| (kind.as_str(), name(*kind)))).about(
        "An event of one of the types, with the payload of its type. An event whose payload does not match is accepted \
        all the same: what cannot be read is left out with a warning. `InboundEvent` describes what is accepted.",
    )
}

fn event(kind: InboundType) -> Schema {
    // All fields of the envelope again: a schema that refers to another one with `allOf` and narrows its fields is left out by
    // openapi-python-client, and others type such fields twice.
    let mut event = events::envelope()
        .with_field("eventType", Schema { types: vec!["string"], ..constant(kind.as_str()) })
        .with_field("payload", reference(payloads::of(kind).unwrap_or(UNREAD)));
    event.required.extend(needs_payload(kind).then_some("payload"));
    event.about(payloads::effect(kind))
}

/// Whether an event of the type fails, or has no effect, without a payload.
const fn needs_payload(kind: InboundType) -> bool {
    matches!(kind, InboundType::BookingCreditApplied | InboundType::EmployeeCreditUpdated)
}

fn unread() -> Schema {
    of_type("object").about("Any fields. None of them is read; the timeline has the payload as sent.")
}
