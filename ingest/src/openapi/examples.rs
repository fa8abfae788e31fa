//! Examples of bodies. Tests send the requests, and check all examples against their schemas.

use super::document::{Example, OrderedMap};
use crate::http::route::Endpoint;
use common::event::{InboundType, OutboundType};
use serde_json::value::RawValue;

/// An id of a record.
pub(super) const ID: &str = "0199c0de-7a3b-7c11-9d1e-3f5a8b2c4d6e";

/// The example body of a request; `None` for an endpoint without a request body.
pub(super) const fn request(endpoint: Endpoint) -> Option<&'static str> {
    match endpoint {
        Endpoint::SendEvents => Some(include_str!("examples/send_events.json")),
        Endpoint::CreateClient => Some(include_str!("examples/create_client.json")),
        Endpoint::ChangeClient => Some(include_str!("examples/change_client.json")),
        Endpoint::CreateLead => Some(include_str!("examples/create_lead.json")),
        Endpoint::ChangeLead => Some(include_str!("examples/change_lead.json")),
        Endpoint::ChangeTrip => Some(include_str!("examples/change_trip.json")),
        Endpoint::FindClients
        | Endpoint::GetClient
        | Endpoint::FindLeads
        | Endpoint::GetLead
        | Endpoint::GetTrip
        | Endpoint::GetOpenApi
        | Endpoint::GetDocs => None,
    }
}

/// The `Idempotency-Key` of an endpoint that takes one: the caller's own id of what is created.
pub(super) const fn idempotency_key(endpoint: Endpoint) -> Option<&'static str> {
    match endpoint {
        Endpoint::CreateClient => Some("person-4711"),
        Endpoint::CreateLead => Some("order-4711"),
        Endpoint::SendEvents
        | Endpoint::FindClients
        | Endpoint::GetClient
        | Endpoint::ChangeClient
        | Endpoint::FindLeads
        | Endpoint::GetLead
        | Endpoint::ChangeLead
        | Endpoint::GetTrip
        | Endpoint::ChangeTrip
        | Endpoint::GetOpenApi
        | Endpoint::GetDocs => None,
    }
}

const fn response(endpoint: Endpoint) -> Option<&'static str> {
    match endpoint {
        Endpoint::SendEvents => Some(include_str!("examples/batch_result.json")),
        Endpoint::FindClients => Some(include_str!("examples/clients.json")),
        Endpoint::CreateClient | Endpoint::GetClient | Endpoint::ChangeClient => {
            Some(include_str!("examples/client.json"))
        }
        Endpoint::FindLeads => Some(include_str!("examples/leads.json")),
        Endpoint::CreateLead | Endpoint::GetLead | Endpoint::ChangeLead => {
            Some(include_str!("examples/lead.json"))
        }
        Endpoint::GetTrip => Some(include_str!("examples/trip.json")),
        Endpoint::ChangeTrip => Some(include_str!("examples/changed_trip.json")),
        Endpoint::GetOpenApi | Endpoint::GetDocs => None,
    }
}

/// A batch with an event of each type. In their order they tell the story of one traveler, so that each is applied.
const fn event(kind: InboundType) -> &'static str {
    match kind {
        InboundType::ContactIdentified => include_str!("examples/events/contact_identified.json"),
        InboundType::ContactUpdated => include_str!("examples/events/contact_updated.json"),
        InboundType::EnquirySubmitted => include_str!("examples/events/enquiry_submitted.json"),
        InboundType::DiscoveryUpserted => include_str!("examples/events/discovery_upserted.json"),
        InboundType::TripPlanningStarted => include_str!("examples/events/trip_planning_started.json"),
        InboundType::TripDraftUpdated => include_str!("examples/events/trip_draft_updated.json"),
        InboundType::QuoteRequested => include_str!("examples/events/quote_requested.json"),
        InboundType::BookingStarted => include_str!("examples/events/booking_started.json"),
        InboundType::BookingAbandoned => include_str!("examples/events/booking_abandoned.json"),
        InboundType::BookingCompleted => include_str!("examples/events/booking_completed.json"),
        InboundType::BookingCreditApplied => include_str!("examples/events/booking_credit_applied.json"),
        InboundType::EmployeeCreditUpdated => include_str!("examples/events/employee_credit_updated.json"),
    }
}

const fn webhook(kind: OutboundType) -> &'static str {
    match kind {
        OutboundType::LeadAssigned => include_str!("examples/lead_assigned.json"),
        OutboundType::LeadStageChanged => include_str!("examples/lead_stage_changed.json"),
        OutboundType::ProposalSent => include_str!("examples/proposal_sent.json"),
        OutboundType::ProposalViewed => include_str!("examples/proposal_viewed.json"),
        OutboundType::BookingConfirmed => include_str!("examples/booking_confirmed.json"),
        OutboundType::BookingCancelled => include_str!("examples/booking_cancelled.json"),
    }
}

/// The examples of a request's body; for events, one of each type as well.
pub(super) fn of_request(endpoint: Endpoint) -> OrderedMap<String, Example> {
    let mut examples = named("request", "A request.", request(endpoint));
    if endpoint == Endpoint::SendEvents {
        examples.extend(
            InboundType::ALL.iter().flat_map(|kind| named(kind.as_str(), kind.as_str(), Some(event(*kind)))),
        );
    }
    examples
}

/// The example of a response's body.
pub(super) fn of_response(endpoint: Endpoint) -> OrderedMap<String, Example> {
    named("response", "A response.", response(endpoint))
}

/// The example of a webhook's body.
pub(super) fn of_webhook(kind: OutboundType) -> OrderedMap<String, Example> {
    named("delivery", "A delivery.", Some(webhook(kind)))
}

fn named(name: &str, summary: &'static str, text: Option<&str>) -> OrderedMap<String, Example> {
    let value = |text: &str| {
        RawValue::from_string(text.trim().to_owned()).expect("examples are JSON: a test reads them all")
    };
    text.map(|text| (name.to_owned(), Example { summary, value: value(text) })).into_iter().collect()
}
