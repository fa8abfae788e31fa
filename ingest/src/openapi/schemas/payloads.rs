//! What the payloads of inbound events may say. Payloads are open and read leniently: what can't be read is left out
//! and named in `warnings` (D15). So these describe, and the envelope's schema doesn't refer to them.

use crate::openapi::schema::{Schema, array, having, object, of_type, reference};
use crate::openapi::texts::{amount, currency, date, instant, line, prose, string, uuid, verbatim, whole};
use common::event::InboundType;
use common::model::{Party, text};

/// The payloads.
pub(super) fn all() -> Vec<(&'static str, Schema)> {
    vec![
        ("EnquiryPayload", enquiry()),
        ("DiscoveryPayload", discovery()),
        ("BookingPayload", booking()),
        ("CompletedBookingPayload", completed_booking()),
        ("CreditAppliedPayload", credit_applied()),
        ("CreditUpdatedPayload", credit_updated()),
        ("EventTravelDates", travel_dates()),
    ]
}

/// The schema of a type's payload; `None` where all of it goes to the timeline and nothing of it is read.
pub(crate) const fn of(kind: InboundType) -> Option<&'static str> {
    match kind {
        InboundType::EnquirySubmitted => Some("EnquiryPayload"),
        InboundType::DiscoveryUpserted => Some("DiscoveryPayload"),
        InboundType::BookingStarted | InboundType::BookingAbandoned => Some("BookingPayload"),
        InboundType::BookingCompleted => Some("CompletedBookingPayload"),
        InboundType::BookingCreditApplied => Some("CreditAppliedPayload"),
        InboundType::EmployeeCreditUpdated => Some("CreditUpdatedPayload"),
        InboundType::ContactIdentified
        | InboundType::ContactUpdated
        | InboundType::TripPlanningStarted
        | InboundType::TripDraftUpdated
        | InboundType::QuoteRequested => None,
    }
}

/// What a type does (specification: Inbound event types).
pub(crate) const fn effect(kind: InboundType) -> &'static str {
    match kind {
        InboundType::ContactIdentified => {
            "Creates the client or updates the matched one; opens no enquiry. An address on a company's \
            domain joins that company's account."
        }
        InboundType::ContactUpdated => {
            "Changes `name` and `phone` of the matched client, never the email, and never creates one: \
            `failed` with `contact_not_found` when none matches."
        }
        InboundType::EnquirySubmitted => {
            "Upserts the client and opens an enquiry at `inquiry`, with a trip workspace."
        }
        InboundType::DiscoveryUpserted => {
            "Upserts the client, reuses the open enquiry or opens one, and records what the traveller looks \
            for, where the agency has Traveller Discovery (else the warning \
            `traveller_discovery_not_enabled`)."
        }
        InboundType::TripPlanningStarted | InboundType::TripDraftUpdated => "Timeline only.",
        InboundType::QuoteRequested => "Timeline only; never opens an enquiry.",
        InboundType::BookingStarted => "Advances the open enquiry to `proposal_approved`, never back.",
        InboundType::BookingAbandoned => "Flags the open enquiry for follow-up; its stage stays.",
        InboundType::BookingCompleted => {
            "Moves the enquiry to `trip_booked`; with a `bookingRef`, `booking.confirmed` is emitted."
        }
        InboundType::BookingCreditApplied => {
            "Confirms the corporate credit of an invoice, your answer to `booking.confirmed`. Needs \
            `credit:write`."
        }
        InboundType::EmployeeCreditUpdated => {
            "Refreshes the corporate credit shown on the client's open enquiries; the newest `asOf` wins. \
            Needs `credit:write`."
        }
    }
}

/// `enquiry.submitted`
fn enquiry() -> Schema {
    let free_text = verbatim(text::NOTES).about("Free text, filed verbatim as notes.");
    let budget = Schema { any_of: vec![free_text, reference("Budget")], ..Schema::default() };
    object([
        ("title", line(text::NAME)),
        ("destination", line(text::LINE)),
        ("travelDates", reference("EventTravelDates")),
        ("party", reference("Party")),
        ("paxCount", whole(Party::COUNT_MAX).about("Kept as `adults` where there is no `party`.")),
        ("budget", budget),
        ("guestNationality", string().about("ISO 3166-1 alpha-2.")),
        ("message", prose(text::MESSAGE).about("The customer's words; they open the inbox thread.")),
        ("attribution", reference("Attribution")),
        (
            "externalLeadId",
            line(text::EXTERNAL_ID).about("Your own id for the enquiry; `GET /leads` finds it."),
        ),
        ("itinerarySnapshot", reference("Itinerary")),
    ])
    .about(
        "Payload of `enquiry.submitted`. What is left out stays unstated. What can't be read gives a \
        warning such as `brief_field_rejected:budget`, or `itinerary_rejected`; the enquiry opens all the \
        same.",
    )
}

/// `travelDates` of an event
fn travel_dates() -> Schema {
    object([("start", date()), ("end", date()), ("startDate", date()), ("endDate", date())])
        .about("Either pair of names, or one of a pair.")
}

/// `traveller.discovery_upserted`
fn discovery() -> Schema {
    let any_of = |schemas: Vec<Schema>| Schema { any_of: schemas, ..Schema::default() };
    let found = object([
        ("destinationInterest", any_of(vec![string(), array(string())])),
        ("dateRange", any_of(vec![string(), reference("EventTravelDates")])),
        ("pax", any_of(vec![whole(Party::COUNT_MAX), reference("Party")])),
        ("tripNotes", verbatim(text::MESSAGE)),
    ]);
    let profile = object([
        ("constraints", any_of(vec![string(), array(string()), of_type("object")])),
        ("styleDefaults", of_type("object")),
    ]);
    object([
        ("discovery", found),
        ("profilePatch", profile),
        ("essence", verbatim(text::MESSAGE)),
        (
            "hosTripDiscoveryId",
            uuid().about(
                "`travellerDiscovery.discoveryId` of an earlier result: updates \
            that record.",
            ),
        ),
    ])
    .about(
        "Payload of `traveller.discovery_upserted`. Unknown keys are ignored; what can't be read gives \
        the warning `traveller_discovery_field_rejected:<field>`.",
    )
}

fn booking_names() -> Vec<(&'static str, Schema)> {
    vec![
        ("leadId", uuid().about("The enquiry.")),
        ("tripId", uuid().about("Or its trip.")),
        ("externalLeadId", string().about("Or your own id for it.")),
    ]
}

/// `booking.started` and `booking.abandoned`
fn booking() -> Schema {
    Schema { properties: booking_names(), ..of_type("object") }.about(
        "Payload of `booking.started` and `booking.abandoned`. Without a name the client's open enquiry is \
        meant. One that is not this client's gives the warning `enquiry_not_found`.",
    )
}

/// `booking.completed`
fn completed_booking() -> Schema {
    let mut fields = booking_names();
    fields.extend([
        (
            "bookingRef",
            line(text::BOOKING_REF).about("Identifies the booking; with it `booking.confirmed` is emitted."),
        ),
        ("amount", amount().about("In major units.")),
        ("currency", currency()),
        ("creditUsed", amount().about("Corporate credit counted as paid.")),
    ]);
    Schema { properties: fields, ..of_type("object") }.about(
        "Payload of `booking.completed`. Without a name the client's open enquiry is meant, else its newest. \
        What can't be read gives the warning `booking_field_rejected:<field>`.",
    )
}

/// `booking.credit_applied`
fn credit_applied() -> Schema {
    object([
        ("bookingRef", line(text::BOOKING_REF).about("The booking.")),
        ("tripId", uuid().about("Or its trip, whose newest invoice is meant.")),
        ("requestedRupees", amount()),
        (
            "appliedRupees",
            amount().about(
                "Credit taken, in major units. Needed: without it the event is \
            `failed` with `invalid_payload`.",
            ),
        ),
        ("reason", string()),
    ])
    .requiring(["appliedRupees"])
    .with_any_of([having(["bookingRef"]), having(["tripId"])])
    .about("Payload of `booking.credit_applied`. An unknown booking is `failed` with `booking_not_found`.")
}

/// `employee.credit_updated`
fn credit_updated() -> Schema {
    object([
        ("membershipId", string()),
        ("corporateName", string()),
        ("availablePaise", of_type("integer")),
        ("grantedPaise", of_type("integer")),
        ("redeemablePercent", Schema { minimum: Some(0), maximum: Some(100), ..of_type("number") }),
        ("asOf", instant().about("RFC 3339, with an offset. Needed: without it nothing is refreshed.")),
    ])
    .requiring(["asOf"])
    .about(
        "Payload of `employee.credit_updated`. What can't be read gives the warning \
        `credit_field_rejected:<field>`.",
    )
}
