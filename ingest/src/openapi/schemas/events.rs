//! The inbound envelope, read leniently (D6), and the batch result.

use super::payloads;
use crate::openapi::schema::{Schema, array, constant, having, object, of_type, one_of_texts, reference};
use crate::openapi::texts::{BLANK, HAS_DIGIT, NOT_BLANK, email, instant, line, string, uuid};
use common::event::{BATCH_MAX, EventStatus, InboundType, RESERVED_PREFIX};
use common::model::text;

/// What a reserved event id looks like.
pub const RESERVED: &str = "^connect-api:";

/// The batch, its envelopes, and what comes back.
pub(super) fn all() -> Vec<(&'static str, Schema)> {
    vec![
        ("EventBatch", batch()),
        ("InboundEvent", envelope()),
        ("InboundActor", actor()),
        ("BatchResult", batch_result()),
        ("EventResult", event_result()),
    ]
}

/// `{"events": [..]}`
pub(crate) fn batch() -> Schema {
    object([("events", array(reference("InboundEvent")).with_items(1, BATCH_MAX))])
        .complete()
        .about("All-or-nothing: one envelope at fault refuses the batch, and nothing of it is written.")
}

/// An envelope.
pub(crate) fn envelope() -> Schema {
    let reserved = Schema { pattern: Some(RESERVED), ..Schema::default() };
    let event_id = Schema { not: Some(Box::new(reserved)), ..line(text::ENVELOPE_ID) };
    object([
        ("specVersion", Schema { constant: Some("1.0".into()), ..of_type("string") }),
        (
            "eventId",
            event_id.about(&format!(
                "Unique in your agency: what is sent again under it is `duplicate`. `{RESERVED_PREFIX}` is \
                reserved."
            )),
        ),
        ("eventType", one_of_texts(InboundType::ALL.iter().map(|kind| kind.as_str()))),
        ("occurredAt", instant().about("RFC 3339, with an offset.")),
        (
            "tenant",
            line(text::ENVELOPE_ID).about(
                "Your agency's slug; compared trimmed and \
            case-insensitively.",
            ),
        ),
        ("origin", line(text::ENVELOPE_ID).about("The emitting system. Prevents loops: see Webhooks.")),
        ("actor", reference("InboundActor")),
        (
            "payload",
            Schema { payloads: payloads::by_type(), ..of_type("object").or_null() }.about(
                "Depends on the type, and is open. What its type's schema doesn't take is no reason to refuse \
                the event: it is left out, with a warning.",
            ),
        ),
    ])
    .requiring(["specVersion", "eventId", "eventType", "occurredAt", "tenant", "origin", "actor"])
    .about("An event. Fields that are not known here are ignored.")
}

/// The traveller.
pub(crate) fn actor() -> Schema {
    let stated = |name: &'static str, pattern: &'static str| {
        let text = Schema { pattern: Some(pattern), ..of_type("string") };
        Schema { properties: vec![(name, text)], ..having([name]) }
    };
    object([
        ("type", constant("contact")),
        ("email", optional_email()),
        ("phone", optional(text::PHONE).about("Compared by its digits; without any it counts as absent.")),
        ("externalId", optional(text::EXTERNAL_ID).about("Your own id for the person.")),
        ("name", optional(text::NAME)),
    ])
    .requiring(["type"])
    .with_any_of([stated("email", NOT_BLANK), stated("phone", HAS_DIGIT), stated("externalId", NOT_BLANK)])
    .about(
        "The traveller the event is about: at least one of `email`, `phone`, `externalId`. Null and blank \
        count as absent.",
    )
}

/// A text that may be blank or null.
fn optional(max: usize) -> Schema {
    Schema { max_length: Some(max), ..of_type("string") }.or_null()
}

fn optional_email() -> Schema {
    let blank = Schema { pattern: Some(BLANK), ..of_type("string") };
    let any_of = vec![email(), blank.about("Blank."), of_type("null")];
    Schema { any_of, ..Schema::default() }.about("Strongest identity; compared case-insensitively.")
}

/// The answer of the events route.
pub(crate) fn batch_result() -> Schema {
    let count = |what: &str| Schema { minimum: Some(0.into()), ..of_type("integer") }.about(what);
    object([
        ("accepted", count("Events applied now.")),
        ("duplicate", count("Events applied before.")),
        ("failed", count("Events not applied.")),
        ("results", array(reference("EventResult")).about("One for each event, in the order of the batch.")),
    ])
    .complete()
    .about("What became of a batch.")
}

/// What became of one event.
pub(crate) fn event_result() -> Schema {
    let statuses = [EventStatus::Accepted, EventStatus::Duplicate, EventStatus::Failed];
    object([
        ("eventId", string()),
        (
            "status",
            one_of_texts(statuses.map(EventStatus::as_str)).about(
                "`duplicate` repeats what the first result said. A `failed` event is not remembered: \
                    correct the event and resend it with the same id.",
            ),
        ),
        ("error", error()),
        ("clientId", uuid().about("The client matched or created.")),
        ("leadId", uuid().about("The enquiry opened or attached to.")),
        ("tripId", uuid().about("Its trip workspace.")),
        ("warnings", array(string()).about("What was left out, such as `brief_field_rejected:budget`.")),
        (
            "travellerDiscovery",
            object([("discoveryId", uuid())]).complete().about(
                "Only for \
            `traveller.discovery_upserted`: send the id back as `payload.hosTripDiscoveryId`.",
            ),
        ),
    ])
    .requiring(["eventId", "status"])
    .about("What became of one event.")
}

fn error() -> Schema {
    one_of_texts([
        "insufficient_scope",
        "contact_not_found",
        "booking_not_found",
        "invalid_payload",
        "internal_error",
    ])
    .about("Only on `failed`.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserved_ids_are_those_that_the_records_api_writes_under() {
        assert_eq!(RESERVED, format!("^{RESERVED_PREFIX}"));
    }
}
