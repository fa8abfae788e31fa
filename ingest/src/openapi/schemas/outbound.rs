//! The envelopes of webhooks (specification: Outbound webhook events; D25).

use crate::openapi::schema::{Schema, object, of_type, one_by_field, reference};
use crate::openapi::value_schemas::{amount, currency, instant, string, uuid};
use common::event::OutboundType;

/// The envelope of each type, and the union of them.
pub(super) fn all() -> Vec<(&'static str, Schema)> {
    let envelopes = OutboundType::ALL.iter().map(|kind| (name(*kind), envelope(*kind)));
    [("OutboundEvent", union()), ("OutboundActor", actor())].into_iter().chain(envelopes).collect()
}

/// For receivers that take all types at one URL.
fn union() -> Schema {
    one_by_field("eventType", OutboundType::ALL.iter().map(|kind| (kind.as_str(), name(*kind))))
        .about("The body of a webhook of any type.")
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

/// The meaning of an event type (specification: Outbound webhook events).
pub(crate) const fn meaning(kind: OutboundType) -> &'static str {
    match kind {
        OutboundType::LeadAssigned => "An enquiry was assigned, or reassigned, to an advisor.",
        OutboundType::LeadStageChanged => {
            "An enquiry moved to another stage. Not emitted for its first stage."
        }
        OutboundType::ProposalSent => "A proposal was sent to the traveler.",
        OutboundType::ProposalViewed => "The traveler opened the hosted proposal.",
        OutboundType::BookingConfirmed => {
            "The trip is booked. `bookingRef` identifies the booking: detect duplicates by it. For a corporate \
            employee it has the travel credit used; send `booking.credit_applied` in return."
        }
        OutboundType::BookingCancelled => {
            "The booking was cancelled. It has the `bookingRef` of its `booking.confirmed`. Return any credit \
            used."
        }
    }
}

pub(crate) fn envelope(kind: OutboundType) -> Schema {
    object([
        ("specVersion", Schema { constant: Some("1.0".into()), ..of_type("string") }),
        ("eventId", uuid().about("The same in every attempt: detect duplicates by it.")),
        ("eventType", Schema { constant: Some(kind.as_str().into()), ..of_type("string") }),
        ("occurredAt", instant()),
        ("tenant", string().about("The agency's slug.")),
        (
            "origin",
            string().about(
                "The system that caused the event: `crm` for advisors, the `origin` of an event, and \
            for records writes the origin registered for the key, or else `connect-api`.",
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
    .about("The client. Fields without a value are left out.")
}

/// The fields of all payloads, and those that the type adds.
fn payload(kind: OutboundType) -> Schema {
    let mut fields = vec![
        ("leadId", uuid()),
        ("tripId", uuid().about("Present if the enquiry has a trip.")),
        ("clientId", uuid()),
        ("enquiryNumber", string()),
        ("externalId", string().about("Your own id for the enquiry, if it has one.")),
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
            ("previousOwner", member().about("The previous advisor; null if there was none.")),
        ],
        OutboundType::LeadStageChanged => vec![
            ("from", reference("Stage")),
            ("to", reference("Stage")),
            ("reason", string().or_null().about("The reason that was given.")),
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
                    "Travel credit of a corporate employee, in major units; present only if it was stated.",
                ),
            ),
        ],
        OutboundType::BookingCancelled => {
            vec![("bookingRef", string()), ("reason", string().or_null())]
        }
    }
}

/// A member. The name is null if the member has been removed.
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
