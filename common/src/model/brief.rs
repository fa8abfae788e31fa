//! The brief: what a traveler asks for. A lead and its trip share one brief (D20).

use super::text;
use chrono::NaiveDate;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The brief, as stored and as shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Brief {
    /// Free text, at most 500 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// Travel dates; `None` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub travel_dates: Option<TravelDates>,
    /// Travel party; `None` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub party: Option<Party>,
    /// Budget; `None` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// ISO 3166-1 alpha-2 passport country of the party, upper case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest_nationality: Option<String>,
}

/// Travel dates; the end is not before the start (D22).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TravelDates {
    /// First day, `YYYY-MM-DD`.
    pub start_date: Option<NaiveDate>,
    /// Last day, `YYYY-MM-DD`.
    pub end_date: Option<NaiveDate>,
}

/// The travel party, stored as sent and never derived from a list of travelers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Party {
    /// Number of adults.
    pub adults: Option<u32>,
    /// Number of children.
    pub children: Option<u32>,
    /// Their ages in years.
    pub child_ages: Option<Vec<u32>>,
    /// Number of rooms.
    pub rooms: Option<u32>,
}

/// The budget: an amount with its currency, or notes (D22).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Budget {
    /// Major units; null when only notes are known.
    pub amount: Option<f64>,
    /// ISO 4217 code; null when only notes are known.
    pub currency: Option<String>,
    /// Free text; null when an amount is stated.
    pub notes: Option<String>,
}

/// Parses an existing calendar date of the exact form `YYYY-MM-DD`.
pub fn parse_date(text: &str) -> Option<NaiveDate> {
    let shape = text.len() == 10
        && text.bytes().enumerate().all(|(i, b)| if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() });
    if !shape {
        return None;
    }
    NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()
}

impl Party {
    /// Largest number of people or rooms, and largest age, that is accepted.
    pub const COUNT_MAX: u32 = 1_000;
}

impl TravelDates {
    /// `None` when the end is before the start or neither is given.
    pub fn new(start_date: Option<NaiveDate>, end_date: Option<NaiveDate>) -> Option<Self> {
        match (start_date, end_date) {
            (None, None) => None,
            (Some(start), Some(end)) if end < start => None,
            _ => Some(Self { start_date, end_date }),
        }
    }
}

impl Budget {
    /// An amount with its currency; `None` when the code is not an ISO 4217 code or the amount is negative.
    pub fn from_amount(amount: f64, currency: &str) -> Option<Self> {
        (is_currency(currency) && amount.is_finite() && amount >= 0.0).then(|| Self {
            // -0 is 0 (D34).
            amount: Some(amount + 0.0),
            currency: Some(currency.to_owned()),
            notes: None,
        })
    }

    /// A budget of free text only, kept verbatim.
    pub fn notes(text: &str) -> Self {
        Self { notes: Some(text.to_owned()), ..Self::default() }
    }
}

/// Whether `code` is an ISO 4217 code, upper case (D22).
pub fn is_currency(code: &str) -> bool {
    iso_currency::Currency::from_code(code).is_some()
}

/// Widely used and known to the library, but a user-assigned code of the standard.
const NOT_ASSIGNED: &str = "XK";

/// Whether `code` is an assigned ISO 3166-1 alpha-2 code, upper case (D22).
pub fn is_country(code: &str) -> bool {
    code.len() == 2
        && code != NOT_ASSIGNED
        && code.bytes().all(|b| b.is_ascii_uppercase())
        && celes::Country::from_alpha2(code).is_ok()
}

/// Lists what is wrong with a snapshot; empty when it is valid. `bytes` is the length of its JSON.
///
/// `title` and `days` are required, each day has a `title` and `items`, each item is an object with a `title`
/// and any further fields.
pub fn check_itinerary(snapshot: &Value, bytes: usize) -> Vec<String> {
    let mut errors = Vec::new();
    if bytes > text::ITINERARY_BYTES {
        errors.push("itinerary: must have at most 256 KiB".to_owned());
        return errors;
    }
    let Some(object) = snapshot.as_object() else {
        errors.push("itinerary: must be an object".to_owned());
        return errors;
    };
    check_title("", object.get("title"), &mut errors);
    match object.get("days").map(Value::as_array) {
        Some(Some(days)) => days.iter().enumerate().for_each(|(i, day)| check_day(i, day, &mut errors)),
        Some(None) => errors.push("days: must be an array".to_owned()),
        None => errors.push("days: is required".to_owned()),
    }
    errors
}

fn check_day(index: usize, day: &Value, errors: &mut Vec<String>) {
    let place = format!("days[{index}]");
    if !day.is_object() {
        errors.push(format!("{place}: must be an object"));
        return;
    }
    check_title(&format!("{place}."), day.get("title"), errors);
    let Some(items) = day.get("items").and_then(Value::as_array) else {
        errors.push(format!("{place}.items: must be an array"));
        return;
    };
    for (i, item) in items.iter().enumerate() {
        if item.is_object() {
            check_title(&format!("{place}.items[{i}]."), item.get("title"), errors);
        } else {
            errors.push(format!("{place}.items[{i}]: must be an object"));
        }
    }
}

fn check_title(prefix: &str, title: Option<&Value>, errors: &mut Vec<String>) {
    match title {
        None => errors.push(format!("{prefix}title: is required")),
        Some(Value::String(title)) if text::is_blank(title) => {
            errors.push(format!("{prefix}title: must not be empty"));
        }
        Some(Value::String(title)) if !text::fits(title, text::NAME) => {
            errors.push(format!("{prefix}title: must have at most 200 characters"));
        }
        Some(Value::String(_)) => {}
        Some(_) => errors.push(format!("{prefix}title: must be a string")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_real_dates_of_the_exact_form_are_read() {
        assert!(parse_date("2028-02-29").is_some());
        for wrong in ["2027-02-29", "2027-2-9", "+027-01-01", "2027-01-01T", " 2027-01-1", "2027/01/01", ""] {
            assert_eq!(parse_date(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn codes_are_the_assigned_ones() {
        assert!(is_country("IN") && is_country("DE"));
        assert!(!is_country("in") && !is_country("XX") && !is_country("XK") && !is_country("UK") && !is_country("IND"));
        assert!(Budget::from_amount(10.0, "INR").is_some());
        assert!(Budget::from_amount(10.0, "inr").is_none() && Budget::from_amount(-1.0, "INR").is_none());
    }
}
