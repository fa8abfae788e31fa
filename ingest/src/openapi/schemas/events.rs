//! The inbound envelope, read leniently (D6), and the batch result.

use super::payloads;
use crate::openapi::schema::{Schema, array, constant, having, object, of_type, one_of_texts, reference};
use crate::openapi::value_schemas::{BLANK, HAS_DIGIT, NOT_BLANK, email, instant, line, string, uuid};
use common::event::{BATCH_MAX, EventStatus, InboundType, RESERVED_PREFIX};
use common::model::text;

/// A pattern for reserved event ids.
pub const RESERVED: &str = "^connect-api:";

/// The batch, its envelopes, and its result.
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
    object([("events", array(reference("Event")).with_items(1, BATCH_MAX))])
        .complete()
        .about("One invalid envelope rejects the whole batch, and nothing of it is written.")
}

pub(crate) fn envelope() -> Schema {
    let reserved = Schema { pattern: Some(RESERVED), ..Schema::default() };
    let event_id = Schema { not: Some(Box::new(reserved)), ..line(text::ENVELOPE_ID) };
    object([
        ("specVersion", Schema { constant: Some("1.0".into()), ..of_type("string") }),
        (
            "eventId",
            event_id.about(&format!(
                "Unique in your agency: another event with the same id is `duplicate`. Ids that begin with \
                `{RESERVED_PREFIX}` are reserved."
            )),
        ),
        ("eventType", one_of_texts(InboundType::ALL.iter().map(|kind| kind.as_str()))),
        ("occurredAt", instant().about("RFC 3339, with an offset. A time in the future is accepted as well.")),
        (
            "tenant",
            line(text::ENVELOPE_ID).about(
                "The slug of your agency; compared \
            case-insensitively, without white space around it.",
            ),
        ),
        ("origin", line(text::ENVELOPE_ID).about("The emitting system. It prevents loops: see [Receiving webhooks](#webhooks).")),
        ("actor", reference("InboundActor")),
        (
            "payload",
            Schema { payloads: payloads::by_type(), ..of_type("object").or_null() }.about(
                "Its fields depend on the event type; other fields are ignored. A field that does not match the \
                schema of the type is left out with a warning; the event is accepted.",
            ),
        ),
    ])
    .requiring(["specVersion", "eventId", "eventType", "occurredAt", "tenant", "origin", "actor"])
    .about("An event of any type, as it is accepted. Unknown fields are ignored.")
}

pub(crate) fn actor() -> Schema {
    let stated = |name: &'static str, pattern: &'static str| {
        let text = Schema { pattern: Some(pattern), ..of_type("string") };
        Schema { properties: vec![(name, text)], ..having([name]) }
    };
    object([
        ("type", Schema { types: vec!["string"], ..constant("contact") }),
        ("email", optional_email()),
        (
            "phone",
            optional(text::PHONE).about("Compared by its digits; a phone without digits counts as absent."),
        ),
        ("externalId", optional(text::EXTERNAL_ID).about("Your own id for the person.")),
        ("name", optional(text::NAME)),
    ])
    .requiring(["type"])
    .with_any_of([stated("email", NOT_BLANK), stated("phone", HAS_DIGIT), stated("externalId", NOT_BLANK)])
    .about(
        "The traveler the event is about: at least one of `email`, `phone`, `externalId`. Null and blank \
        values count as absent.",
    )
}

/// A text that may be blank or null.
fn optional(max: usize) -> Schema {
    Schema { max_length: Some(max), ..of_type("string") }.or_null()
}

fn optional_email() -> Schema {
    let blank = Schema { pattern: Some(BLANK), ..of_type("string") };
    let any_of = vec![email(), blank.about("Blank."), of_type("null")];
    Schema { any_of, ..Schema::default() }
        .about("The identity that is matched first; compared case-insensitively.")
}

/// The response of the events route.
pub(crate) fn batch_result() -> Schema {
    let count = |what: &str| Schema { minimum: Some(0.into()), ..of_type("integer") }.about(what);
    object([
        ("accepted", count("Number of events that this request applied.")),
        ("duplicate", count("Number of events that were applied before.")),
        ("failed", count("Number of events that were not applied.")),
        ("results", array(reference("EventResult")).about("One for each event, in the order of the batch.")),
    ])
    .complete()
    .about("The result of a batch.")
}

/// The result of one event.
pub(crate) fn event_result() -> Schema {
    let statuses = [EventStatus::Accepted, EventStatus::Duplicate, EventStatus::Failed];
    object([
        ("eventId", string()),
        (
            "status",
            one_of_texts(statuses.map(EventStatus::as_str)).about(
                "`duplicate` repeats the ids and warnings of the first result. A `failed` event is not remembered: \
                    correct the event and resend it with the same id.",
            ),
        ),
        ("error", error()),
        ("clientId", uuid().about("The client matched or created.")),
        ("leadId", uuid().about("The enquiry opened or attached to.")),
        ("tripId", uuid().about("The trip workspace of the enquiry.")),
        ("warnings", array(string()).about("The parts of the event that were not applied, such as `brief_field_rejected:budget`.")),
        (
            "travellerDiscovery",
            object([("discoveryId", uuid())]).complete().about(
                "Only for \
            `traveller.discovery_upserted`: send the id as `payload.hosTripDiscoveryId` to update the record.",
            ),
        ),
    ])
    .requiring(["eventId", "status"])
    .about("The result of one event.")
}

fn error() -> Schema {
    one_of_texts([
        "insufficient_scope",
        "contact_not_found",
        "booking_not_found",
        "contact_erased",
        "invalid_payload",
        "internal_error",
    ])
    .about(
        "Only for `failed` events. `contact_erased`: the person was erased at the agency after the event occurred; do not \
            resend it.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_ids_are_those_of_records_writes() {
        assert_eq!(RESERVED, format!("^{RESERVED_PREFIX}"));
    }
}
