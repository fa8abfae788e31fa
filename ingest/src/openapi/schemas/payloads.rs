//! What the payloads of inbound events may say. Payloads are open and read leniently: what can't be read is left out
//! and named in `warnings` (D15). So these describe, and the envelope's schema points to them without demanding them.
//!
//! What events and records have in common is made by the same functions; [`Schema::lenient`] is the difference. Tests
//! hold these schemas against the rules: what one takes is read without a warning, and nothing else is.

use super::bodies;
use crate::openapi::schema::{Schema, SchemaPath, array, having, object, of_type, reference};
use crate::openapi::texts::{
    BLANK, NOT_BLANK, amount, country_or_empty, currency, date, instant, line, money, uuid, verbatim, whole,
};
use common::event::InboundType;
use common::model::{Party, text};

/// The payloads and their parts.
pub(super) fn all() -> Vec<(&'static str, Schema)> {
    vec![
        ("EnquiryPayload", enquiry()),
        ("DiscoveryPayload", discovery()),
        ("BookingPayload", booking()),
        ("CompletedBookingPayload", completed_booking()),
        ("CreditAppliedPayload", credit_applied()),
        ("CreditUpdatedPayload", credit_updated()),
        ("EventTravelDates", travel_dates()),
        ("EventParty", party()),
        ("EventBudget", budget()),
        ("EventAttribution", attribution()),
        ("EventItinerary", itinerary()),
        ("EventItineraryDay", bodies::itinerary_day().lenient()),
    ]
}

/// The schemas of those types of which something is read.
pub(super) fn by_type() -> Vec<(&'static str, SchemaPath)> {
    InboundType::ALL.iter().filter_map(|kind| Some((kind.as_str(), SchemaPath(of(*kind)?)))).collect()
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
    let budget = Schema { any_of: vec![free_text, reference("EventBudget")], ..Schema::default() };
    object([
        ("title", verbatim(text::NAME).about("The title that advisors see.")),
        ("destination", verbatim(text::LINE).about("Where to, in any words.")),
        ("travelDates", reference("EventTravelDates").about("When.")),
        ("party", reference("EventParty").about("Who.")),
        ("paxCount", whole(Party::COUNT_MAX).about("Kept as `adults` where there is no `party`.")),
        ("budget", budget.about("For how much: in words, or as a figure.")),
        (
            "guestNationality",
            country_or_empty().about("An assigned ISO 3166-1 alpha-2 code. Empty states none."),
        ),
        ("message", verbatim(text::MESSAGE).about("The customer's words; they open the inbox thread.")),
        ("attribution", reference("EventAttribution").about("Where the enquiry came from.")),
        (
            "externalLeadId",
            line(text::EXTERNAL_ID).about("Your own id for the enquiry; `GET /leads` finds it."),
        ),
        ("itinerarySnapshot", reference("EventItinerary").about("Becomes that of the draft proposal.")),
    ])
    .lenient()
    .about(
        "Payload of `enquiry.submitted`. What is left out, null or blank stays unstated. What can't be read \
        gives a warning such as `brief_field_rejected:budget`, or `itinerary_rejected`; the enquiry opens \
        all the same.",
    )
}

/// `travelDates` of an event
fn travel_dates() -> Schema {
    object([("start", date()), ("end", date()), ("startDate", date()), ("endDate", date())])
        .lenient()
        .about("Either pair of names, or one of a pair. The end is not before the start.")
}

/// `party` of an event
fn party() -> Schema {
    bodies::party().lenient().about(
        "Stored as given, never inferred from a roster. Numbers are written without fraction and exponent. \
        One that can't be read rejects the whole party.",
    )
}

/// `budget` of an event, where it isn't free text
fn budget() -> Schema {
    let blank = Schema { pattern: Some(BLANK), ..of_type("string") };
    let figure = object([
        ("amount", amount().about("In major units.")),
        ("currency", currency().about("An ISO 4217 code.")),
        ("notes", blank.about("None beside a figure.")),
    ]);
    let notes = object([
        ("amount", of_type("null")),
        ("currency", of_type("null")),
        ("notes", verbatim(text::NOTES).or_null().about("In the customer's words.")),
    ]);
    let one_of = vec![figure.requiring(["amount", "currency"]).lenient(), notes];
    Schema { one_of, ..Schema::default() }.about(
        "A figure with its currency, or notes when that isn't known. Half of the pair, or both kinds, rejects \
        the budget.",
    )
}

/// `attribution` of an event
fn attribution() -> Schema {
    bodies::attribution().lenient().about("The marketing block. One field that can't be read rejects it.")
}

/// `itinerarySnapshot`
fn itinerary() -> Schema {
    let kib = text::ITINERARY_BYTES / 1024;
    bodies::itinerary("EventItineraryDay").lenient().about(&format!(
        "At most {kib} KiB of JSON, kept as sent. One that doesn't fit gives the warning `itinerary_rejected`."
    ))
}

fn any_of<const N: usize>(schemas: [Schema; N]) -> Schema {
    Schema { any_of: Vec::from(schemas), ..Schema::default() }
}

/// `traveller.discovery_upserted`
fn discovery() -> Schema {
    let kib = text::PROFILE_BYTES / 1024;
    let list = |items| array(items).with_items(0, text::WISHES);
    let open = || of_type("object").about(&format!("At most {kib} KiB of JSON, kept as sent."));
    let found = object([
        ("destinationInterest", any_of([line(text::LINE), list(line(text::LINE))]).about("Where to.")),
        (
            "dateRange",
            any_of([verbatim(text::DATES), reference("EventTravelDates")])
                .about("When, in words or as dates."),
        ),
        ("pax", any_of([whole(Party::COUNT_MAX), reference("EventParty")]).about("How many, or who.")),
        ("tripNotes", verbatim(text::MESSAGE).about("In words.")),
    ]);
    let words = || verbatim(text::NOTES);
    let constraints = any_of([words(), list(words()), open()]);
    let profile = object([
        ("constraints", constraints.about(&format!("As an object at most {kib} KiB of JSON."))),
        ("styleDefaults", open()),
    ]);
    object([
        ("discovery", found.lenient().about("What the traveller looks for on this trip.")),
        ("profilePatch", profile.lenient().about("What holds for the traveller beyond one trip.")),
        ("essence", verbatim(text::MESSAGE).about("The traveller in a text.")),
        (
            "hosTripDiscoveryId",
            optional_uuid().about(
                "`travellerDiscovery.discoveryId` of an earlier result for this traveller: updates that record.",
            ),
        ),
    ])
    .lenient()
    .about(
        "Payload of `traveller.discovery_upserted`. Unknown keys are ignored; what can't be read gives \
        the warning `traveller_discovery_field_rejected:<field>`.",
    )
}

/// An id of ours, or nothing.
fn optional_uuid() -> Schema {
    let blank = Schema { pattern: Some(BLANK), ..of_type("string") };
    any_of([uuid(), blank])
}

fn booking_names() -> Vec<(&'static str, Schema)> {
    vec![
        ("leadId", optional_uuid().about("The enquiry.")),
        ("tripId", optional_uuid().about("Or its trip, where there is no `leadId`.")),
        ("externalLeadId", of_type("string").about("Or your own id for it, where there is neither.")),
    ]
}

/// `booking.started` and `booking.abandoned`
fn booking() -> Schema {
    Schema { properties: booking_names(), ..of_type("object") }.lenient().about(
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
        ("amount", money().about("In major units. Read beside a `bookingRef`, as what follows.")),
        ("currency", currency().about("An ISO 4217 code.")),
        ("creditUsed", money().about("Corporate credit counted as paid.")),
    ]);
    Schema { properties: fields, ..of_type("object") }.lenient().about(
        "Payload of `booking.completed`. Without a name the client's open enquiry is meant, else its newest. \
        What can't be read gives the warning `booking_field_rejected:<field>`.",
    )
}

/// `booking.credit_applied`
fn credit_applied() -> Schema {
    let stated =
        |name: &'static str, what: Schema| Schema { properties: vec![(name, what)], ..having([name]) };
    let some_text = Schema { pattern: Some(NOT_BLANK), ..of_type("string") };
    object([
        ("bookingRef", of_type("string").about("The booking.")),
        ("tripId", optional_uuid().about("Or its trip, whose newest invoice is meant.")),
        ("requestedRupees", Schema::default().about("What was asked for. Kept, not read.")),
        (
            "appliedRupees",
            money().about(
                "Credit taken, in major units. Needed: without it the event is `failed` with `invalid_payload`.",
            ),
        ),
        ("reason", Schema::default().about("Why less was taken. Kept, not read.")),
    ])
    .requiring(["appliedRupees"])
    .lenient()
    .with_any_of([stated("bookingRef", some_text), stated("tripId", uuid())])
    .about(
        "Payload of `booking.credit_applied`. A `bookingRef` or a `tripId` is needed: without one, as with an \
        unknown one, the event is `failed` with `booking_not_found`.",
    )
}

/// `employee.credit_updated`
fn credit_updated() -> Schema {
    let paise = || Schema { format: Some("int64"), ..of_type("integer") };
    object([
        ("membershipId", verbatim(text::EXTERNAL_ID).about("Your own id for the employee's membership.")),
        ("corporateName", verbatim(text::NAME).about("The employer.")),
        ("availablePaise", paise().about("What is left, in hundredths of a rupee.")),
        ("grantedPaise", paise().about("What was granted, in hundredths of a rupee.")),
        (
            "redeemablePercent",
            Schema { minimum: Some(0.into()), maximum: Some(100.into()), ..of_type("number") },
        ),
        ("asOf", instant().about("RFC 3339, with an offset. Needed: without it nothing is refreshed.")),
    ])
    .requiring(["asOf"])
    .lenient()
    .about(
        "Payload of `employee.credit_updated`. What can't be read gives the warning \
        `credit_field_rejected:<field>`.",
    )
}
