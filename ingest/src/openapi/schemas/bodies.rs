//! What the records routes take: strict, each field as `common::record` reads it.

use crate::openapi::schema::{Schema, array, having, object, of_type, one_of_texts, reference};
use crate::openapi::texts::{
    amount, boolean, country_or_empty, currency, date, email, line, phone, prose, verbatim, whole,
};
use common::model::{Party, Stage, text};
use common::record::{AGE_MAX, TRAVELERS_MAX, TravelerType};

/// The stages that `PATCH /leads/{leadId}` can set (specification: PATCH /leads/{leadId} body; D21).
pub(crate) const SETTABLE: [Stage; 5] =
    [Stage::Inquiry, Stage::FollowUp, Stage::BuildingProposal, Stage::Negotiation, Stage::Lost];

/// The bodies and their parts.
pub(super) fn all() -> Vec<(&'static str, Schema)> {
    vec![
        ("NewClient", new_client()),
        ("ClientChange", client_change()),
        ("Traveler", traveler()),
        ("NewLead", new_lead()),
        ("LeadChange", lead_change()),
        ("TripChange", trip_change()),
        ("Contact", contact()),
        ("TravelDates", travel_dates()),
        ("Party", party()),
        ("Budget", budget()),
        ("Itinerary", itinerary("ItineraryDay")),
        ("ItineraryDay", itinerary_day()),
        ("ItineraryItem", itinerary_item()),
        ("Attribution", attribution()),
    ]
}

/// `POST /clients`
pub(crate) fn new_client() -> Schema {
    client_change().with_any_of([having(["email"]), having(["phone"]), having(["externalId"])]).about(
        "A client to be created. At least one of `email`, `phone`, `externalId` identifies the person.",
    )
}

/// `PATCH /clients/{clientId}`
pub(crate) fn client_change() -> Schema {
    object([
        ("name", line(text::NAME).about("Full name.")),
        ("email", email().about("Strongest identity; compared case-insensitively.")),
        ("phone", phone().about("Compared by its digits; identifies only where no email is sent.")),
        ("company", line(text::LINE).about("Label.")),
        ("externalId", line(text::EXTERNAL_ID).about("Your own id for the person.")),
        ("marketingOptIn", boolean().about("Whether the person agreed to marketing.")),
        (
            "travelers",
            array(reference("Traveler"))
                .with_items(0, TRAVELERS_MAX)
                .about("The whole roster: what was there before is replaced, an empty array clears it."),
        ),
    ])
    .strict()
    .about("What changes of a client. Fields that are left out stay as they are.")
}

/// An item of `travelers`
pub(crate) fn traveler() -> Schema {
    let types = [TravelerType::Adult, TravelerType::Child, TravelerType::Infant];
    object([
        ("name", line(text::NAME).about("Full name.")),
        ("type", one_of_texts(types.map(TravelerType::as_str)).about("`adult` when left out.")),
        ("age", whole(AGE_MAX).about("In years.")),
        ("email", email().about("The traveler's own; does not identify the client.")),
        ("phone", phone().about("The traveler's own; does not identify the client.")),
    ])
    .requiring(["name"])
    .strict()
    .about("One of a client's travelers.")
}

/// `POST /leads`
pub(crate) fn new_lead() -> Schema {
    let identity = [having(["email"]), having(["phone"]), having(["externalId"])];
    let identified = Schema {
        properties: vec![("contact", Schema::default().with_any_of(identity))],
        ..having(["contact"])
    };
    let mut fields = vec![
        (
            "contact",
            reference("Contact").about(
                "Whose enquiry it is: matched with a client, or made one. Needed unless `clientId` is sent.",
            ),
        ),
        (
            "clientId",
            line(text::EXTERNAL_ID).about("The client to attach the enquiry to. An unknown one is 404."),
        ),
        ("externalId", line(text::EXTERNAL_ID).about("Your own id for the enquiry; `GET /leads` finds it.")),
    ];
    fields.extend(brief_fields());
    fields.extend([
        ("message", prose(text::MESSAGE).about("The customer's words; they open the inbox thread.")),
        ("attribution", reference("Attribution").about("Where the enquiry came from.")),
    ]);
    Schema { properties: fields, ..of_type("object") }
        .strict()
        .with_any_of([having(["clientId"]), identified])
        .about(
            "An enquiry to be opened: `clientId`, or a `contact` with at least one of `email`, `phone`, \
            `externalId`.",
        )
}

/// `PATCH /leads/{leadId}`
pub(crate) fn lead_change() -> Schema {
    object([
        (
            "stage",
            one_of_texts(SETTABLE.map(Stage::as_str)).about(
                "`building_proposal` and `negotiation` need a trip. Another known stage is 422 \
                `stage_not_allowed`, an unknown one 400.",
            ),
        ),
        (
            "reason",
            verbatim(text::NOTES).about("Why. For `lost` at least 5 characters, else 422 `reason_required`."),
        ),
        ("owner", email().about("The new owner: an active member of the agency, who is notified.")),
        ("followUp", boolean().about("The follow-up flag.")),
        ("title", line(text::NAME).about("The title that advisors see.")),
    ])
    .strict()
    .about("What changes of an enquiry. Fields that are left out stay as they are.")
}

/// `PATCH /leads/{leadId}/trip`
pub(crate) fn trip_change() -> Schema {
    let mut fields = brief_fields();
    fields.extend([
        ("message", prose(text::MESSAGE).about("The customer's words; posted to the inbox thread.")),
        (
            "changeSummary",
            line(text::LINE)
                .about("One line on what changed; also the reason recorded with a change of dates."),
        ),
    ]);
    Schema { properties: fields, ..of_type("object") }
        .strict()
        .about("What the customer changes of a trip. Fields that are left out stay as they are.")
}

/// What enquiries and trips have in common.
fn brief_fields() -> Vec<(&'static str, Schema)> {
    vec![
        ("title", line(text::NAME).about("The title that advisors see.")),
        ("destination", line(text::LINE).about("Where to, in any words.")),
        ("travelDates", reference("TravelDates").about("When.")),
        ("party", reference("Party").about("Who.")),
        ("budget", reference("Budget").about("For how much. Replaces the stated budget as a whole.")),
        (
            "guestNationality",
            country_or_empty().about(
                "Passport country of the party: an assigned ISO 3166-1 alpha-2 code. Empty clears it.",
            ),
        ),
        (
            "itinerary",
            reference("Itinerary")
                .about("The itinerary as your system has it; becomes that of the draft proposal."),
        ),
    ]
}

/// `contact` of `POST /leads`
pub(crate) fn contact() -> Schema {
    object([
        ("name", line(text::NAME).about("Full name.")),
        ("email", email().about("Strongest identity; compared case-insensitively.")),
        ("phone", phone().about("Compared by its digits; the weakest identity.")),
        ("externalId", line(text::EXTERNAL_ID).about("Your own id for the person.")),
    ])
    .strict()
    .about(
        "A person. The first of `email`, `externalId`, `phone` that is sent is what a client is matched by.",
    )
}

/// `travelDates`
pub(crate) fn travel_dates() -> Schema {
    object([
        ("startDate", date().about("First day.")),
        ("endDate", date().about("Last day, not before the first.")),
    ])
    .strict()
    .with_any_of([having(["startDate"]), having(["endDate"])])
    .about("Days that exist, `YYYY-MM-DD`; one of the two may stand alone.")
}

/// `party`
pub(crate) fn party() -> Schema {
    let max = Party::COUNT_MAX;
    let fields = object([
        ("adults", whole(max)),
        ("children", whole(max)),
        ("childAges", array(whole(max)).with_items(0, max as usize).about("In years.")),
        ("rooms", whole(max)),
    ]);
    Schema { min_properties: Some(1), ..fields.strict() }.about(
        "Stored as given, never inferred from a roster. Numbers are written without fraction and exponent.",
    )
}

/// `budget`
pub(crate) fn budget() -> Schema {
    let stated = object([
        ("amount", amount().about("In major units.")),
        ("currency", currency().about("An ISO 4217 code.")),
    ]);
    let notes = object([("notes", prose(text::NOTES).about("In the customer's words."))]);
    Schema { one_of: vec![stated.complete().strict(), notes.complete().strict()], ..Schema::default() }.about(
        "A figure with its currency, or notes when that isn't known. Half of the pair, or both kinds, \
            is 400.",
    )
}

/// `itinerary`, of days of that schema
pub(crate) fn itinerary(day: &'static str) -> Schema {
    let kib = text::ITINERARY_BYTES / 1024;
    object([("title", line(text::NAME)), ("days", array(reference(day)))]).complete().strict().about(
        &format!(
            "At most {kib} KiB of JSON. What is wrong with one is 400 `invalid_itinerary`, with `errors`."
        ),
    )
}

pub(crate) fn itinerary_day() -> Schema {
    object([("title", line(text::NAME)), ("items", array(reference("ItineraryItem")))])
        .complete()
        .strict()
        .about("A day. It may have no items.")
}

fn itinerary_item() -> Schema {
    object([("title", line(text::NAME))])
        .complete()
        .about("An item, with whatever else it brings: kept as sent.")
}

/// `attribution`
pub(crate) fn attribution() -> Schema {
    object([
        ("source", verbatim(text::LINE)),
        ("medium", verbatim(text::LINE)),
        ("campaign", verbatim(text::LINE).about("The pipeline can be filtered by it.")),
        ("term", verbatim(text::LINE)),
        ("content", verbatim(text::LINE)),
        ("landingPath", verbatim(text::PAGE)),
        ("referrer", verbatim(text::PAGE)),
    ])
    .strict()
    .about("The marketing block. Blank fields count as left out.")
}
