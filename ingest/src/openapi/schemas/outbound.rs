//! The envelopes of webhooks (specification: Outbound webhook events; D25).

use crate::openapi::schema::{Schema, object, of_type, reference};
use crate::openapi::texts::{amount, currency, instant, string, uuid};
use common::event::OutboundType;

/// The envelope of each type.
pub(super) fn all() -> Vec<(&'static str, Schema)> {
    let envelopes = OutboundType::ALL.iter().map(|kind| (name(*kind), envelope(*kind)));
    [("OutboundActor", actor())].into_iter().chain(envelopes).collect()
}

/// The name of a type's schema.
pub(crate) const fn name(kind: OutboundType) -> &'static str {
    match kind {
        OutboundType::LeadAssigned => "LeadAssigned",
        OutboundType::LeadStageChanged => "LeadStageChanged",
        OutboundType::ProposalSent => "ProposalSent",
        OutboundType::ProposalViewed => "ProposalViewed",
        OutboundType::BookingConfirmed => "BookingConfirmed",
        OutboundType::BookingCancelled => "BookingCancelled",
    }
}

/// What a type tells (specification: Outbound webhook events).
pub(crate) const fn meaning(kind: OutboundType) -> &'static str {
    match kind {
        OutboundType::LeadAssigned => {
            "An advisor was assigned to an enquiry, or it was given to another one."
        }
        OutboundType::LeadStageChanged => "An enquiry moved to another stage. Its first stage is no change.",
        OutboundType::ProposalSent => "A proposal was sent to the traveller.",
        OutboundType::ProposalViewed => "The traveller opened the hosted proposal.",
        OutboundType::BookingConfirmed => {
            "The trip is booked. `bookingRef` identifies the booking: dedupe on it. For a corporate employee \
            it tells the travel credit used; answer with `booking.credit_applied`."
        }
        OutboundType::BookingCancelled => {
            "The booking was cancelled, under the `bookingRef` of its `booking.confirmed`. Return any credit \
            used."
        }
    }
}

/// A type's envelope.
pub(crate) fn envelope(kind: OutboundType) -> Schema {
    object([
        ("specVersion", Schema { constant: Some("1.0".into()), ..of_type("string") }),
        ("eventId", uuid().about("The same in every attempt: dedupe on it.")),
        ("eventType", Schema { constant: Some(kind.as_str().into()), ..of_type("string") }),
        ("occurredAt", instant()),
        ("tenant", string().about("The agency's slug.")),
        (
            "origin",
            string().about(
                "What caused it: `crm` for advisors, an event's own `origin`, for records \
            writes the key's registered origin or `connect-api`.",
            ),
        ),
        ("actor", reference("OutboundActor")),
        ("payload", payload(kind)),
    ])
    .complete()
    .about(meaning(kind))
}

fn actor() -> Schema {
    object([
        ("type", Schema { constant: Some("contact".into()), ..of_type("string") }),
        ("email", string()),
        ("phone", string()),
        ("externalId", string().about("Your own id for the person.")),
        ("name", string()),
    ])
    .requiring(["type", "name"])
    .about("The client; what is not known is left out.")
}

/// What all payloads carry, and what a type adds.
fn payload(kind: OutboundType) -> Schema {
    let mut fields = vec![
        ("leadId", uuid()),
        ("tripId", uuid().about("Where the enquiry has a trip.")),
        ("clientId", uuid()),
        ("enquiryNumber", string()),
        ("externalId", string().about("Your own id for the enquiry, where it has one.")),
    ];
    let added = added(kind);
    let is_optional = |name: &str| ["tripId", "externalId", "creditUsed"].contains(&name);
    fields.extend(added);
    let required = fields.iter().map(|(name, _)| *name).filter(|name| !is_optional(name)).collect();
    Schema { properties: fields, required, ..of_type("object") }
}

fn added(kind: OutboundType) -> Vec<(&'static str, Schema)> {
    match kind {
        OutboundType::LeadAssigned => vec![
            ("owner", member().about("The advisor.")),
            ("previousOwner", member().about("The advisor before; null for none.")),
        ],
        OutboundType::LeadStageChanged => vec![
            ("from", reference("Stage")),
            ("to", reference("Stage")),
            ("reason", string().or_null().about("What was said of it.")),
        ],
        OutboundType::ProposalSent => proposal(),
        OutboundType::ProposalViewed => {
            let mut fields = proposal();
            fields.push(("viewedAt", instant()));
            fields
        }
        OutboundType::BookingConfirmed => vec![
            ("bookingRef", string()),
            ("amount", amount().or_null().about("In major units.")),
            ("currency", currency().or_null().about("ISO 4217.")),
            (
                "creditUsed",
                amount().about(
                    "Travel credit of a corporate employee, in major units; only where some was stated.",
                ),
            ),
        ],
        OutboundType::BookingCancelled => {
            vec![("bookingRef", string()), ("reason", string().or_null())]
        }
    }
}

/// A member, who may have left since: then the name isn't known.
fn member() -> Schema {
    object([("email", string()), ("name", string().or_null())]).complete().or_null()
}

fn proposal() -> Vec<(&'static str, Schema)> {
    vec![
        ("proposalId", uuid()),
        ("title", string()),
        ("proposalUrl", string().about("The hosted proposal.")),
        ("channel", string().about("How it was sent, such as `email`.")),
        ("sentAt", instant()),
    ]
}
