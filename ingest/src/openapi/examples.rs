//! Examples, as people would write them. Tests send the requests, and check all of them against their schemas.

use super::document::{Example, Named};
use crate::route::Endpoint;
use common::event::OutboundType;
use serde_json::value::RawValue;

/// An id of a record.
pub(super) const ID: &str = "0199c0de-7a3b-7c11-9d1e-3f5a8b2c4d6e";

/// What a request's body looks like; `None` for an endpoint that takes none.
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

const fn answer(endpoint: Endpoint) -> Option<&'static str> {
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

/// The example of a request's body.
pub(super) fn of_request(endpoint: Endpoint) -> Named<String, Example> {
    named("request", "A request.", request(endpoint))
}

/// The example of an answer's body.
pub(super) fn of_answer(endpoint: Endpoint) -> Named<String, Example> {
    named("answer", "An answer.", answer(endpoint))
}

/// The example of a webhook's body.
pub(super) fn of_webhook(kind: OutboundType) -> Named<String, Example> {
    named("delivery", "A delivery.", Some(webhook(kind)))
}

fn named(name: &str, summary: &'static str, text: Option<&str>) -> Named<String, Example> {
    let value = |text: &str| {
        RawValue::from_string(text.trim().to_owned()).expect("examples are JSON: a test reads them all")
    };
    text.map(|text| (name.to_owned(), Example { summary, value: value(text) })).into_iter().collect()
}
