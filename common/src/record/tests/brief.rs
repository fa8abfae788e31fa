//! Dates, party, budget and nationality, alike in both bodies that have them.

use super::{faults, valid};
use crate::model::Budget;
use crate::record::{LeadBody, Nationality, TripPatch};

/// The fields' types and limits are tested against their schemas, in `tests/it/openapi/bodies.rs`.
#[test]
fn each_fault_of_a_brief_has_its_message() {
    let two_forms = "budget: must have either amount and currency or notes, not both";
    for (field, value, fault) in [
        ("travelDates", "{}", "travelDates: must have startDate or endDate"),
        ("travelDates", "[]", "travelDates: must be an object"),
        (
            "travelDates",
            r#"{"endDate": "2027-02-29"}"#,
            "travelDates.endDate: must be a date that exists, as YYYY-MM-DD",
        ),
        (
            "travelDates",
            r#"{"startDate": "2027-01-02", "endDate": "2027-01-01"}"#,
            "travelDates: must not end before it starts",
        ),
        ("party", "{}", "party: must have at least one of adults, children, childAges, rooms"),
        ("party", r#"{"adults": -1}"#, "party.adults: must be a whole number from 0 to 1000"),
        ("party", r#"{"childAges": 7}"#, "party.childAges: must be an array"),
        ("party", r#"{"childAges": [7, "8"]}"#, "party.childAges[1]: must be a whole number from 0 to 1000"),
        (
            "party",
            r#"{"adults": 2.0000000000000000001}"#,
            "party.adults: must be a whole number from 0 to 1000",
        ),
        (
            "destination",
            r#""\"2\\", "budget": {"amount": 0.1000000000000000055, "currency": "INR"}"#,
            "budget.amount: must have at most 15 significant digits",
        ),
        ("budget", "{}", "budget: must have amount and currency, or notes"),
        ("budget", r#"{"amount": 1}"#, "budget.currency: is required with amount"),
        ("budget", r#"{"currency": "INR"}"#, "budget.amount: is required with currency"),
        ("budget", r#"{"amount": 1, "notes": "x"}"#, two_forms),
        ("budget", r#"{"amount": 1, "currency": "INR", "notes": "x"}"#, two_forms),
        ("budget", r#"{"amount": "1", "currency": "INR"}"#, "budget.amount: must be a number"),
        ("budget", r#"{"amount": -0.5, "currency": "INR"}"#, "budget.amount: must not be negative"),
        (
            "budget",
            r#"{"amount": 1, "currency": "inr"}"#,
            "budget.currency: must be an ISO 4217 currency code",
        ),
        ("budget", r#"{"notes": " "}"#, "budget.notes: must not be empty"),
        (
            "guestNationality",
            r#""XX""#,
            "guestNationality: must be an assigned ISO 3166-1 alpha-2 code, or empty",
        ),
    ] {
        let body = format!(r#"{{"{field}": {value}}}"#);
        assert_eq!(faults::<LeadBody>(&body), [fault]);
        assert_eq!(faults::<TripPatch>(&body), [fault]);
    }
}

#[test]
fn a_budget_is_an_amount_with_its_currency_or_notes() {
    for (budget, expected) in [
        (r#"{"amount": 0, "currency": "EUR"}"#, Budget::from_amount(0.0, "EUR")),
        (r#"{"amount": 1e3, "currency": "EUR"}"#, Budget::from_amount(1000.0, "EUR")),
        (r#"{"notes": " modest "}"#, Some(Budget::notes(" modest "))),
    ] {
        let trip: TripPatch = valid(&format!(r#"{{"budget": {budget}}}"#));
        assert_eq!(trip.budget.into_option(), expected);
    }
}

#[test]
fn an_empty_nationality_clears_it() {
    let trip: TripPatch = valid(r#"{"guestNationality": ""}"#);
    assert_eq!(trip.guest_nationality.into_option(), Some(Nationality::Cleared));
    assert_eq!(valid::<LeadBody>(r#"{"guestNationality": ""}"#).brief().guest_nationality, None);
}
