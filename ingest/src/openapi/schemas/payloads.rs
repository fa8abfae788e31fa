//! The payloads of inbound events. Payloads are open and read leniently: a field that cannot be read is left out and named in
//! `warnings` (D15). So these schemas only describe; the envelope's schema refers to them without requiring them.
//!
//! Events and records share the functions that build their schemas; [`Schema::lenient`] is the difference. Tests compare
//! these schemas with the rules: a value is read without a warning if and only if it matches its schema.

use super::bodies;
use crate::openapi::schema::{Schema, SchemaPath, array, having, object, of_type, reference};
use crate::openapi::value_schemas::{
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

/// The payload schemas of the event types whose payload is read.
pub(super) fn by_type() -> Vec<(&'static str, SchemaPath)> {
    InboundType::ALL.iter().filter_map(|kind| Some((kind.as_str(), SchemaPath(of(*kind)?)))).collect()
}

/// The schema of a type's payload; `None` if no field of it is read. The timeline has the payload in any case.
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

/// The effect of an event type (specification: Inbound event types).
pub(crate) const fn effect(kind: InboundType) -> &'static str {
    match kind {
        InboundType::ContactIdentified => {
            "Creates the client or updates the matched one; opens no enquiry. A client whose email is on the \
            domain of a company account joins that account."
        }
        InboundType::ContactUpdated => {
            "Changes `name` and `phone` of the matched client, never the email, and never creates one: \
            `failed` with `contact_not_found` when none matches."
        }
        InboundType::EnquirySubmitted => {
            "Upserts the client and opens an enquiry at `inquiry`, with a trip workspace."
        }
        InboundType::DiscoveryUpserted => {
            "Upserts the client, reuses the open enquiry or opens one, and records what the traveler looks \
            for. If Traveller Discovery is not enabled for the agency, the result has the warning \
            `traveller_discovery_not_enabled` instead."
        }
        InboundType::TripPlanningStarted | InboundType::TripDraftUpdated => "Adds a timeline entry only.",
        InboundType::QuoteRequested => "Adds a timeline entry only; never opens an enquiry.",
        InboundType::BookingStarted => {
            "Advances the open enquiry to `proposal_approved`; never moves it back."
        }
        InboundType::BookingAbandoned => "Flags the open enquiry for follow-up; its stage does not change.",
        InboundType::BookingCompleted => {
            "Moves the enquiry to `trip_booked`; with a `bookingRef`, `booking.confirmed` is emitted."
        }
        InboundType::BookingCreditApplied => {
            "Confirms the corporate credit of an invoice, in return for `booking.confirmed`. Needs \
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
    let free_text = verbatim(text::NOTES).about("Free text, stored verbatim as notes.");
    let budget = Schema { any_of: vec![free_text, reference("EventBudget")], ..Schema::default() };
    object([
        ("title", verbatim(text::NAME).about("The title that advisors see.")),
        ("destination", verbatim(text::LINE).about("Where the trip goes, as free text.")),
        ("travelDates", reference("EventTravelDates").about("The travel dates.")),
        ("party", reference("EventParty").about("The party of travelers.")),
        ("paxCount", whole(Party::COUNT_MAX).about("Stored as `adults` if there is no `party`.")),
        ("budget", budget.about("The budget: in words, or as an amount with a currency.")),
        (
            "guestNationality",
            country_or_empty().about("An assigned ISO 3166-1 alpha-2 code. An empty text counts as absent."),
        ),
        ("message", verbatim(text::MESSAGE).about("The customer's words; they open the inbox thread.")),
        ("attribution", reference("EventAttribution").about("Where the enquiry came from.")),
        (
            "externalLeadId",
            line(text::EXTERNAL_ID).about("Your own id for the enquiry; `GET /leads` finds it."),
        ),
        ("itinerarySnapshot", reference("EventItinerary").about("The itinerary of the draft proposal.")),
    ])
    .lenient()
    .about(
        "Payload of `enquiry.submitted`. A field that is absent, null or blank stays unstated. A field that \
        cannot be read causes a warning such as `brief_field_rejected:budget`, or `itinerary_rejected`; the \
        enquiry is opened nevertheless.",
    )
}

/// `travelDates` of an event
fn travel_dates() -> Schema {
    object([("start", date()), ("end", date()), ("startDate", date()), ("endDate", date())])
        .lenient()
        .about("`start` and `end`, or `startDate` and `endDate`; one of a pair may be left out. The end is not before the start.")
}

/// `party` of an event
fn party() -> Schema {
    bodies::party().lenient().about(
        "Stored as given, never inferred from a roster. Numbers are written without fraction and exponent. \
        One invalid number rejects the whole party.",
    )
}

/// `budget` of an event, if it is not free text
fn budget() -> Schema {
    let blank = Schema { pattern: Some(BLANK), ..of_type("string") };
    let figure = object([
        ("amount", amount().about("In major units.")),
        ("currency", currency().about("An ISO 4217 code.")),
        ("notes", blank.about("Must be blank beside an amount.")),
    ]);
    let notes = object([
        ("amount", of_type("null")),
        ("currency", of_type("null")),
        ("notes", verbatim(text::NOTES).or_null().about("In the customer's words.")),
    ]);
    let one_of = vec![figure.requiring(["amount", "currency"]).lenient(), notes];
    Schema { one_of, ..Schema::default() }.about(
        "An amount with its currency, or notes if these are not known. An amount without a currency, a currency \
        without an amount, or notes beside them reject the budget.",
    )
}

/// `attribution` of an event
fn attribution() -> Schema {
    bodies::attribution()
        .lenient()
        .about("Where the enquiry came from, for marketing. One invalid field rejects the whole object.")
}

/// `itinerarySnapshot`
fn itinerary() -> Schema {
    let kib = text::ITINERARY_BYTES / 1024;
    bodies::itinerary("EventItineraryDay").lenient().about(&format!(
        "At most {kib} KiB of JSON, kept as sent. An invalid itinerary causes the warning `itinerary_rejected`."
    ))
}

fn any_of<const N: usize>(schemas: [Schema; N]) -> Schema {
    Schema { any_of: Vec::from(schemas), ..Schema::default() }
}

/// `traveller.discovery_upserted`
fn discovery() -> Schema {
    let kib = text::PROFILE_BYTES / 1024;
    let list = |items| array(items).with_items(0, text::LIST_ITEMS);
    let open = || of_type("object").about(&format!("At most {kib} KiB of JSON, kept as sent."));
    let found = object([
        (
            "destinationInterest",
            any_of([line(text::LINE), list(line(text::LINE))]).about("Where the traveler wants to go."),
        ),
        (
            "dateRange",
            any_of([verbatim(text::DATES), reference("EventTravelDates")])
                .about("The travel dates, in words or as dates."),
        ),
        (
            "pax",
            any_of([whole(Party::COUNT_MAX), reference("EventParty")])
                .about("The number of travelers, or the party."),
        ),
        ("tripNotes", verbatim(text::MESSAGE).about("Notes on the trip.")),
    ]);
    let words = || verbatim(text::NOTES);
    let constraints = any_of([words(), list(words()), open()]);
    let profile = object([
        ("constraints", constraints.about(&format!("As an object at most {kib} KiB of JSON."))),
        ("styleDefaults", open()),
    ]);
    object([
        ("discovery", found.lenient().about("What the traveler looks for on this trip.")),
        ("profilePatch", profile.lenient().about("Preferences of the traveler that apply to all trips.")),
        ("essence", verbatim(text::MESSAGE).about("Free text about the traveler.")),
        (
            "hosTripDiscoveryId",
            optional_uuid().about(
                "`travellerDiscovery.discoveryId` of an earlier result for this traveler, to update that record.",
            ),
        ),
    ])
    .lenient()
    .about(
        "Payload of `traveller.discovery_upserted`. Unknown keys are ignored. A field that cannot be \
        read causes the warning `traveller_discovery_field_rejected:<field>`.",
    )
}

/// An id that Connect assigned, or a blank text.
fn optional_uuid() -> Schema {
    let blank = Schema { pattern: Some(BLANK), ..of_type("string") };
    any_of([uuid(), blank])
}

fn booking_names() -> Vec<(&'static str, Schema)> {
    vec![
        ("leadId", optional_uuid().about("The enquiry.")),
        ("tripId", optional_uuid().about("The trip of the enquiry; read only if there is no `leadId`.")),
        (
            "externalLeadId",
            of_type("string")
                .about("Your own id for the enquiry; read only if there is neither of the others."),
        ),
    ]
}

/// `booking.started` and `booking.abandoned`
fn booking() -> Schema {
    Schema { properties: booking_names(), ..of_type("object") }.lenient().about(
        "Payload of `booking.started` and `booking.abandoned`. If no field names an enquiry, the event \
        concerns the client's open one. An enquiry of another client causes the warning `enquiry_not_found`.",
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
        (
            "amount",
            money().about("In major units. Read only with a `bookingRef`, like `currency` and `creditUsed`."),
        ),
        ("currency", currency().about("An ISO 4217 code.")),
        ("creditUsed", money().about("Corporate credit counted as paid.")),
    ]);
    Schema { properties: fields, ..of_type("object") }.lenient().about(
        "Payload of `booking.completed`. If no field names an enquiry, the event concerns the client's open \
        one, or else the newest one. A field that cannot be read causes the warning \
        `booking_field_rejected:<field>`.",
    )
}

/// `booking.credit_applied`
fn credit_applied() -> Schema {
    let stated =
        |name: &'static str, what: Schema| Schema { properties: vec![(name, what)], ..having([name]) };
    let some_text = Schema { pattern: Some(NOT_BLANK), ..of_type("string") };
    object([
        ("bookingRef", of_type("string").about("The booking.")),
        ("tripId", optional_uuid().about("The trip, whose newest invoice is confirmed; read only if there is no `bookingRef`.")),
        ("requestedRupees", Schema::default().about("The credit that was requested. Shown on the timeline only.")),
        (
            "appliedRupees",
            money().about(
                "Credit taken, in major units. Required: without it the event is `failed` with `invalid_payload`.",
            ),
        ),
        ("reason", Schema::default().about("Why less was taken. Shown on the timeline only.")),
    ])
    .requiring(["appliedRupees"])
    .lenient()
    .with_any_of([stated("bookingRef", some_text), stated("tripId", uuid())])
    .about(
        "Payload of `booking.credit_applied`. A `bookingRef` or a `tripId` is required. If both are missing, \
        or no booking is found, the event is `failed` with `booking_not_found`.",
    )
}

/// `employee.credit_updated`
fn credit_updated() -> Schema {
    let paise = || Schema { format: Some("int64"), ..of_type("integer") };
    object([
        ("membershipId", verbatim(text::EXTERNAL_ID).about("Your own id for the employee's membership.")),
        ("corporateName", verbatim(text::NAME).about("The employer.")),
        ("availablePaise", paise().about("The credit that is left, in hundredths of a rupee.")),
        ("grantedPaise", paise().about("The credit that was granted, in hundredths of a rupee.")),
        (
            "redeemablePercent",
            Schema { minimum: Some(0.into()), maximum: Some(100.into()), ..of_type("number") },
        ),
        ("asOf", instant().about("RFC 3339, with an offset. Required: without it nothing is refreshed.")),
    ])
    .requiring(["asOf"])
    .lenient()
    .about(
        "Payload of `employee.credit_updated`. A field that cannot be read causes the warning \
        `credit_field_rejected:<field>`.",
    )
}
