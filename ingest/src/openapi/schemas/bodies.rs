//! The bodies of the records routes: strict, each field as `common::record` reads it.

use crate::openapi::schema::{Schema, array, having, object, of_type, one_of_texts, reference};
use crate::openapi::value_schemas::{
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
    client_change()
        .with_any_of([having(["email"]), having(["phone"]), having(["externalId"])])
        .about("The client to create. At least one of `email`, `phone`, `externalId` must be sent.")
}

/// `PATCH /clients/{clientId}`
pub(crate) fn client_change() -> Schema {
    object([
        ("name", line(text::NAME).about("Full name.")),
        ("email", email().about("The identity that is matched first; compared case-insensitively.")),
        ("phone", phone().about("Compared by its digits; used for matching only if no email is sent.")),
        ("company", line(text::LINE).about("Label.")),
        ("externalId", line(text::EXTERNAL_ID).about("Your own id for the person.")),
        ("marketingOptIn", boolean().about("Whether the person agreed to marketing.")),
        (
            "travelers",
            array(reference("Traveler"))
                .with_items(0, TRAVELERS_MAX)
                .about("Replaces the whole roster; an empty array clears it."),
        ),
    ])
    .strict()
    .about("The fields of a client to change. Fields that are not sent keep their values.")
}

/// An item of `travelers`
pub(crate) fn traveler() -> Schema {
    let types = [TravelerType::Adult, TravelerType::Child, TravelerType::Infant];
    object([
        ("name", line(text::NAME).about("Full name.")),
        ("type", one_of_texts(types.map(TravelerType::as_str)).about("Default: `adult`.")),
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
                "The person who enquires: matched with a client, or created. Required unless `clientId` is sent.",
            ),
        ),
        (
            "clientId",
            line(text::EXTERNAL_ID).about("The client to attach the enquiry to. An unknown id gets 404."),
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
            "The enquiry to open. Either `clientId`, or a `contact` with at least one of `email`, `phone`, \
            `externalId`, is required.",
        )
}

/// `PATCH /leads/{leadId}`
pub(crate) fn lead_change() -> Schema {
    object([
        (
            "stage",
            one_of_texts(SETTABLE.map(Stage::as_str)).about(
                "`building_proposal` and `negotiation` need a trip. Another stage gets 422 \
                `stage_not_allowed`, an unknown value 400.",
            ),
        ),
        (
            "reason",
            verbatim(text::NOTES).about("The reason for the move. `lost` needs one of at least 5 characters, else 422 `reason_required`."),
        ),
        ("owner", email().about("The new owner: an active member of the agency, who is notified.")),
        ("followUp", boolean().about("The follow-up flag.")),
        ("title", line(text::NAME).about("The title that advisors see.")),
    ])
    .strict()
    .about("The fields of an enquiry to change. Fields that are not sent keep their values.")
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
        .about("The fields of a trip that the customer changes. Fields that are not sent keep their values.")
}

/// The fields that enquiries and trips have in common.
fn brief_fields() -> Vec<(&'static str, Schema)> {
    vec![
        ("title", line(text::NAME).about("The title that advisors see.")),
        ("destination", line(text::LINE).about("Where the trip goes, as free text.")),
        ("travelDates", reference("TravelDates").about("The travel dates.")),
        ("party", reference("Party").about("The party of travelers.")),
        ("budget", reference("Budget").about("The budget. Replaces the stated budget as a whole.")),
        (
            "guestNationality",
            country_or_empty().about(
                "Passport country of the party: an assigned ISO 3166-1 alpha-2 code. An empty text clears it.",
            ),
        ),
        (
            "itinerary",
            reference("Itinerary")
                .about("The itinerary in your system; it replaces that of the draft proposal."),
        ),
    ]
}

/// `contact` of `POST /leads`
pub(crate) fn contact() -> Schema {
    object([
        ("name", line(text::NAME).about("Full name.")),
        ("email", email().about("The identity that is matched first; compared case-insensitively.")),
        ("phone", phone().about("The identity that is matched last; compared by its digits.")),
        ("externalId", line(text::EXTERNAL_ID).about("Your own id for the person.")),
    ])
    .strict()
    .about("A person. A client is matched by the first of `email`, `externalId`, `phone` that is sent.")
}

/// `travelDates`
pub(crate) fn travel_dates() -> Schema {
    object([
        ("startDate", date().about("First day.")),
        ("endDate", date().about("Last day, not before the first.")),
    ])
    .strict()
    .with_any_of([having(["startDate"]), having(["endDate"])])
    .about("Existing dates as `YYYY-MM-DD`. One of the two may be left out.")
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
        "An amount with its currency, or notes if these are not known. An amount without a currency, a \
            currency without an amount, or notes beside them get 400.",
    )
}

/// `itinerary`, whose days have the schema `day`
pub(crate) fn itinerary(day: &'static str) -> Schema {
    let kib = text::ITINERARY_BYTES / 1024;
    object([("title", line(text::NAME)), ("days", array(reference(day)))]).complete().strict().about(
        &format!(
            "At most {kib} KiB of JSON. An invalid itinerary gets 400 `invalid_itinerary`, with `errors`."
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
        .about("An item. It may have further fields, which are kept as sent.")
}

/// `attribution`
pub(crate) fn attribution() -> Schema {
    object([
        ("source", verbatim(text::LINE)),
        ("medium", verbatim(text::LINE)),
        (
            "campaign",
            verbatim(text::LINE).about("The marketing campaign, by which the pipeline can be filtered."),
        ),
        ("term", verbatim(text::LINE)),
        ("content", verbatim(text::LINE)),
        ("landingPath", verbatim(text::PAGE)),
        ("referrer", verbatim(text::PAGE)),
    ])
    .strict()
    .about("Where the enquiry came from, for marketing. Blank fields count as absent.")
}
