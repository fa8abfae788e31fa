//! Records in responses, as `common::view` writes them.

use super::bodies::SETTABLE;
use crate::openapi::schema::{Schema, array, object, one_of_texts, reference};
use crate::openapi::value_schemas::{amount, boolean, currency, date, instant, string, uuid, whole};
use common::model::{Party, Stage, text};
use common::record::{AGE_MAX, TravelerType};

/// The records and their parts.
pub(super) fn all() -> Vec<(&'static str, Schema)> {
    vec![
        ("Client", client()),
        ("ClientTraveler", client_traveler()),
        ("Lead", lead()),
        ("Trip", trip()),
        ("Stage", stage()),
        ("Owner", owner()),
        ("ShownTravelDates", travel_dates()),
        ("ShownParty", party()),
        ("ShownBudget", budget()),
        ("Proposal", proposal()),
    ]
}

pub(crate) fn client() -> Schema {
    object([
        ("id", uuid()),
        ("name", string().about("Full name. A client created without one is named after its email.")),
        ("email", string().or_null()),
        ("phone", string().or_null()),
        (
            "company",
            string()
                .or_null()
                .about("Name of the company; for a person on a company account, the name of the account."),
        ),
        ("externalId", string().or_null().about("Your own id for the person.")),
        ("marketingOptIn", boolean()),
        ("clientType", one_of_texts(["individual", "company"]).about("`company` is a company account.")),
        ("travelers", array(reference("ClientTraveler"))),
        ("createdAt", instant()),
        ("updatedAt", version()),
    ])
    .complete()
    .about("A client.")
}

/// One of its travelers.
pub(crate) fn client_traveler() -> Schema {
    let types = [TravelerType::Adult, TravelerType::Child, TravelerType::Infant];
    object([
        ("name", string()),
        ("type", one_of_texts(types.map(TravelerType::as_str))),
        ("age", whole(AGE_MAX).or_null().about("In years.")),
        ("email", string().or_null()),
        ("phone", string().or_null()),
    ])
    .complete()
    .about("One of a client's travelers, as shown.")
}

pub(crate) fn lead() -> Schema {
    let mut fields = vec![
        ("id", uuid()),
        ("enquiryNumber", number()),
        ("title", string().about("The title that advisors see.")),
        ("stage", reference("Stage")),
        ("followUp", boolean().about("The follow-up flag.")),
        ("clientId", uuid()),
        ("tripId", uuid().about("Present once the enquiry has a trip workspace.")),
        ("externalId", string().or_null().about("Your own id for the enquiry.")),
        (
            "owner",
            reference("Owner").or_null().about("The advisor who owns the enquiry; null while there is none."),
        ),
    ];
    fields.extend(brief());
    fields.extend([("createdAt", instant()), ("updatedAt", version())]);
    let always = fields.iter().map(|(name, _)| *name).filter(|name| *name != "tripId").collect();
    Schema { required: always, properties: fields, ..object([]) }
        .about("An enquiry, with its trip's brief and stage.")
}

pub(crate) fn trip() -> Schema {
    let mut fields = vec![
        ("id", uuid()),
        ("leadId", uuid()),
        ("enquiryNumber", number()),
        ("title", string()),
        ("stage", reference("Stage")),
    ];
    fields.extend(brief());
    fields.extend([
        ("guestNationality", string().or_null().about("Passport country of the party, ISO 3166-1 alpha-2.")),
        (
            "owner",
            reference("Owner").or_null().about("The advisor who owns the enquiry; null while there is none."),
        ),
        ("proposal", reference("Proposal")),
        ("createdAt", instant()),
        ("updatedAt", version()),
    ]);
    let always = fields.iter().map(|(name, _)| *name).collect();
    fields.extend([
        ("itineraryApplied", boolean().about("Only in the response to a PATCH with an itinerary.")),
        ("itineraryNotAppliedReason", not_applied()),
    ]);
    Schema { required: always, properties: fields, ..object([]) }.about("The trip workspace of an enquiry.")
}

fn not_applied() -> Schema {
    one_of_texts(["advisor_working", "proposal_sent", "no_proposal", "update_failed"]).about(
        "Only when `itineraryApplied` is false. The itinerary is applied while the enquiry is at `inquiry` \
        or `follow_up` and no proposal was sent.",
    )
}

pub(crate) fn stage() -> Schema {
    let settable = SETTABLE.map(|stage| format!("`{stage}`")).join(", ");
    one_of_texts(Stage::ALL.map(Stage::as_str)).about(&format!(
        "The stage of an enquiry. You can set {settable}; proposals, bookings and advisors set the others. \
        An enquiry at `lost`, `archived`, `trip_booked` or `travelled` is closed."
    ))
}

pub(crate) fn owner() -> Schema {
    object([("email", string()), ("name", string())]).complete().about("An advisor of the agency.")
}

/// The fields of the brief as they are shown; null if they are unstated.
fn brief() -> [(&'static str, Schema); 4] {
    [
        ("destination", string().or_null()),
        ("travelDates", reference("ShownTravelDates").or_null()),
        ("party", reference("ShownParty").or_null()),
        ("budget", reference("ShownBudget").or_null()),
    ]
}

pub(crate) fn travel_dates() -> Schema {
    object([("startDate", date().or_null()), ("endDate", date().or_null())])
        .complete()
        .about("Travel dates, as shown.")
}

pub(crate) fn party() -> Schema {
    let count = || whole(Party::COUNT_MAX).or_null();
    let ages = array(whole(Party::COUNT_MAX)).or_null();
    object([("adults", count()), ("children", count()), ("childAges", ages), ("rooms", count())])
        .complete()
        .about("A party, as shown.")
}

pub(crate) fn budget() -> Schema {
    object([
        ("amount", amount().or_null().about("In major units; null when only notes are known.")),
        ("currency", currency().or_null().about("ISO 4217; null when only notes are known.")),
        ("notes", Schema { max_length: Some(text::NOTES), ..string() }.or_null()),
    ])
    .complete()
    .about("A budget, as shown.")
}

pub(crate) fn proposal() -> Schema {
    object([
        ("status", one_of_texts(["draft", "sent", "viewed", "discarded"])),
        ("sentAt", instant().or_null().about("Null until it is sent.")),
    ])
    .complete()
    .about("The status of the trip's newest proposal.")
}

fn number() -> Schema {
    string().about("`<prefix>-<year>-<six digits>`.")
}

fn version() -> Schema {
    instant().about(
        "With milliseconds; increases with every change. In double quotes it is the `ETag` of the record.",
    )
}
