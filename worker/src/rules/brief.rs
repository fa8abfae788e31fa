//! Parses the brief, what a traveler asks for, from a payload (specification: `enquiry.submitted`; D15, D22).
//!
//! A field that is missing or cannot be parsed stays empty. There are no defaults; only `paxCount` replaces a missing `party`.

use super::payload::{
    FieldReader, FieldResult, Payload, Rejected, amount, as_sent, parse, trimmed, typed, verbatim, whole,
};
use chrono::NaiveDate;
use common::model::{Brief, Budget, Party, TravelDates, is_country, parse_date, text};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The fields of the marketing block (specification: `enquiry.submitted`).
const ATTRIBUTION: [&str; 7] = ["source", "medium", "campaign", "term", "content", "landingPath", "referrer"];

/// Parses the brief of an `enquiry.submitted`.
pub(crate) fn parse_brief(fields: &mut FieldReader<'_, '_>) -> Brief {
    let travel_dates = fields.field("travelDates", travel_dates);
    let party = fields.field("party", party);
    let pax_count = fields.field("paxCount", count);
    Brief {
        travel_dates,
        party: party.or(pax_count.map(|adults| Party { adults: Some(adults), ..Party::default() })),
        budget: fields.field("budget", budget),
        destination: fields.field("destination", trimmed(text::LINE)),
        guest_nationality: fields.field("guestNationality", country),
    }
}

/// `{start, end}` or `{startDate, endDate}`: one or both dates; the start must not be after the end.
pub(crate) fn travel_dates(raw: &RawValue) -> FieldResult<TravelDates> {
    let fields = Payload::object(raw)?;
    let either = |name, short| Ok(fields.read(name, date)?.or(fields.read(short, date)?));
    let (start, end) = (either("startDate", "start")?, either("endDate", "end")?);
    if start.is_none() && end.is_none() {
        return Ok(None);
    }
    TravelDates::new(start, end).map(Some).ok_or(Rejected)
}

/// `{adults, children, childAges, rooms}`; unknown fields are ignored, an invalid one rejects the whole party.
pub(crate) fn party(raw: &RawValue) -> FieldResult<Party> {
    let fields = Payload::object(raw)?;
    let party = Party {
        adults: fields.read("adults", count)?,
        children: fields.read("children", count)?,
        child_ages: fields.read("childAges", ages)?,
        rooms: fields.read("rooms", count)?,
    };
    Ok(Some(party).filter(|party| *party != Party::default()))
}

/// A whole number from 0 to [`Party::COUNT_MAX`].
pub(crate) fn count(raw: &RawValue) -> FieldResult<u32> {
    let count = whole(raw)?.and_then(|count| u32::try_from(count).ok());
    count.filter(|count| *count <= Party::COUNT_MAX).map(Some).ok_or(Rejected)
}

/// A text, which becomes the notes; or an object that has either `amount` and `currency`, or `notes`.
pub(crate) fn budget(raw: &RawValue) -> FieldResult<Budget> {
    let notes = verbatim(text::NOTES);
    if raw.get().starts_with('"') {
        return Ok(notes(raw)?.map(|text| Budget::notes(&text)));
    }
    let fields = Payload::object(raw)?;
    let amount: Option<f64> = fields.read("amount", amount)?;
    let currency: Option<String> = fields.read("currency", typed)?;
    match (amount, currency, fields.read("notes", notes)?) {
        (None, None, None) => Ok(None),
        (None, None, Some(text)) => Ok(Some(Budget::notes(&text))),
        (Some(amount), Some(currency), None) => Budget::from_amount(amount, &currency).map(Some).ok_or(Rejected),
        (Some(_), _, _) | (_, Some(_), _) => Err(Rejected),
    }
}

/// An assigned ISO 3166-1 alpha-2 code; an empty string counts as absent.
pub(crate) fn country(raw: &RawValue) -> FieldResult<String> {
    let code: String = parse(raw)?;
    if code.is_empty() {
        return Ok(None);
    }
    if is_country(&code) { Ok(Some(code)) } else { Err(Rejected) }
}

/// The marketing block: its known fields are strings, unknown ones are ignored, an invalid one rejects the block.
pub(crate) fn attribution(raw: &RawValue) -> FieldResult<Value> {
    let fields = Payload::object(raw)?;
    let mut block = Map::new();
    for name in ATTRIBUTION {
        let max = if matches!(name, "landingPath" | "referrer") { text::PAGE } else { text::LINE };
        if let Some(text) = fields.read(name, verbatim(max))? {
            block.insert(name.to_owned(), Value::String(text));
        }
    }
    Ok((!block.is_empty()).then_some(Value::Object(block)))
}

/// The caller's own id of a lead, trimmed.
pub(crate) fn external_id(raw: &RawValue) -> FieldResult<String> {
    trimmed(text::EXTERNAL_ID)(raw)?.map(Some).ok_or(Rejected)
}

/// An itinerary snapshot; its JSON text is kept as sent (D21b).
pub(crate) fn itinerary(raw: &RawValue) -> FieldResult<String> {
    let snapshot = as_sent(raw)?.ok_or(Rejected)?;
    let errors = common::model::check_itinerary(&snapshot, raw.get().len());
    if errors.is_empty() { Ok(Some(raw.get().to_owned())) } else { Err(Rejected) }
}

fn date(raw: &RawValue) -> FieldResult<NaiveDate> {
    parse_date(&parse::<String>(raw)?).map(Some).ok_or(Rejected)
}

fn ages(raw: &RawValue) -> FieldResult<Vec<u32>> {
    let ages: Vec<&RawValue> = parse(raw)?;
    if ages.len() > Party::COUNT_MAX as usize {
        return Err(Rejected);
    }
    ages.into_iter().map(|age| count(age)?.ok_or(Rejected)).collect::<Result<_, _>>().map(Some)
}

#[cfg(test)]
mod tests;
