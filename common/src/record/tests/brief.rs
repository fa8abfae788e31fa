//! Dates, party, budget and nationality, alike in both bodies that have them.

use super::{faults, refuses, valid};
use crate::model::{Budget, Party, TravelDates, parse_date};
use crate::record::{LeadBody, Nationality, TripPatch};

fn both_refuse(rows: &[(&str, &str)]) {
    refuses::<LeadBody>(rows);
    refuses::<TripPatch>(rows);
}

#[test]
fn parses_every_field_of_a_brief() {
    let body = r#"{"destination": " Goa ", "travelDates": {"startDate": "2028-02-29", "endDate": "2028-02-29"},
        "party": {"adults": 2, "children": 1, "childAges": [7], "rooms": 1}, "budget": {"amount": 1000.5, "currency": "INR"},
        "guestNationality": "IN"}"#;
    let day = parse_date("2028-02-29");
    let party = Party { adults: Some(2), children: Some(1), child_ages: Some(vec![7]), rooms: Some(1) };
    let brief = valid::<LeadBody>(body).brief();
    assert_eq!(brief.destination.as_deref(), Some("Goa"));
    assert_eq!(brief.travel_dates, TravelDates::new(day, day));
    assert_eq!(brief.party.as_ref(), Some(&party));
    assert_eq!(brief.budget, Budget::from_amount(1000.5, "INR"));
    assert_eq!(brief.guest_nationality.as_deref(), Some("IN"));

    let trip: TripPatch = valid(body);
    assert_eq!(trip.destination.into_string(), brief.destination);
    assert_eq!(trip.travel_dates.into_option(), brief.travel_dates);
    assert_eq!(trip.party.into_option(), brief.party);
    assert_eq!(trip.budget.into_option(), brief.budget);
    assert_eq!(trip.guest_nationality.into_option(), Some(Nationality::Country("IN".to_owned())));
}

#[test]
fn accepts_a_single_travel_date() {
    let trip: TripPatch = valid(r#"{"travelDates": {"endDate": "2027-01-02"}}"#);
    assert_eq!(trip.travel_dates.into_option(), TravelDates::new(None, parse_date("2027-01-02")));
}

#[test]
fn rejects_dates_that_do_not_exist_or_end_before_they_start() {
    both_refuse(&[
        (r#"{"travelDates": {}}"#, "travelDates: must have startDate or endDate"),
        (r#"{"travelDates": "2027-01-01"}"#, "travelDates: must be an object"),
        (r#"{"travelDates": ["2027-01-01"]}"#, "travelDates: must be an object"),
        (r#"{"travelDates": null}"#, "travelDates: must not be null"),
        (r#"{"travelDates": {"startDate": null}}"#, "travelDates.startDate: must not be null"),
        (r#"{"travelDates": {"startDate": 20270101}}"#, "travelDates.startDate: must be a string"),
        (
            r#"{"travelDates": {"startDate": "2027-01-01", "end": "x"}}"#,
            "travelDates.end: is not a known field",
        ),
        (
            r#"{"travelDates": {"startDate": "2027-01-02", "endDate": "2027-01-01"}}"#,
            "travelDates: must not end before it starts",
        ),
    ]);
    for date in ["2027-02-29", "2027-13-01", "2027-1-1", "01.02.2027", "2027-01-01T00:00:00Z", "", "soon"] {
        let body = format!(r#"{{"travelDates": {{"endDate": "{date}"}}}}"#);
        let expected = ["travelDates.endDate: must be a date that exists, as YYYY-MM-DD"];
        assert_eq!(faults::<LeadBody>(&body), expected, "{date}");
    }
}

#[test]
fn counts_are_whole_numbers_from_0_to_1000() {
    for field in ["adults", "children", "rooms"] {
        // Numbers count by their value (D34, D38).
        for count in ["0", "-0", "-0.0", "-0e5", "0.0", "2.0", "1e3", "1000"] {
            valid::<TripPatch>(&format!(r#"{{"party": {{"{field}": {count}}}}}"#));
        }
        for count in ["-1", "1001", "2.5", "1e4", "\"2\"", "true", "null", "{}", "99999999999"] {
            let body = format!(r#"{{"party": {{"{field}": {count}}}}}"#);
            let what = if count == "null" { "not be null" } else { "be a whole number from 0 to 1000" };
            assert_eq!(faults::<TripPatch>(&body), [format!("party.{field}: must {what}")], "{count}");
        }
    }
}

#[test]
fn rejects_an_empty_party() {
    both_refuse(&[
        (r#"{"party": {}}"#, "party: must have at least one of adults, children, childAges, rooms"),
        (r#"{"party": 2}"#, "party: must be an object"),
        (r#"{"party": {"adults": 2, "infants": 1}}"#, "party.infants: is not a known field"),
        (r#"{"party": {"childAges": 7}}"#, "party.childAges: must be an array"),
        (
            r#"{"party": {"childAges": [7, "8"]}}"#,
            "party.childAges[1]: must be a whole number from 0 to 1000",
        ),
        (r#"{"party": {"childAges": [null]}}"#, "party.childAges[0]: must not be null"),
    ]);
    let ages = format!(r#"{{"party": {{"childAges": [{}]}}}}"#, vec!["1"; 1001].join(","));
    assert_eq!(faults::<LeadBody>(&ages), ["party.childAges: must have at most 1000 items"]);
    let none: TripPatch = valid(r#"{"party": {"childAges": []}}"#);
    assert_eq!(none.party.get().unwrap().child_ages, Some(vec![]));
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
    both_refuse(&[
        (r#"{"budget": {}}"#, "budget: must have amount and currency, or notes"),
        (r#"{"budget": "modest"}"#, "budget: must be an object"),
        (r#"{"budget": {"amount": 1}}"#, "budget.currency: is required with amount"),
        (r#"{"budget": {"currency": "INR"}}"#, "budget.amount: is required with currency"),
        (
            r#"{"budget": {"amount": 1, "currency": "INR", "notes": "x"}}"#,
            "budget: must have either amount and currency or notes, not both",
        ),
        (
            r#"{"budget": {"amount": 1, "notes": "x"}}"#,
            "budget: must have either amount and currency or notes, not both",
        ),
        (r#"{"budget": {"amount": "1", "currency": "INR"}}"#, "budget.amount: must be a number"),
        (r#"{"budget": {"amount": true, "currency": "INR"}}"#, "budget.amount: must be a number"),
        (r#"{"budget": {"amount": null, "currency": "INR"}}"#, "budget.amount: must not be null"),
        (r#"{"budget": {"amount": -0.5, "currency": "INR"}}"#, "budget.amount: must not be negative"),
        (
            r#"{"budget": {"amount": 1234567890.1234567, "currency": "INR"}}"#,
            "budget.amount: must have at most 15 significant digits",
        ),
        (
            r#"{"budget": {"amount": 1, "currency": "inr"}}"#,
            "budget.currency: must be an ISO 4217 currency code",
        ),
        (
            r#"{"budget": {"amount": 1, "currency": ""}}"#,
            "budget.currency: must be an ISO 4217 currency code",
        ),
        (r#"{"budget": {"notes": " "}}"#, "budget.notes: must not be empty"),
        (r#"{"budget": {"notes": "x", "max": 1}}"#, "budget.max: is not a known field"),
    ]);
    let notes = |length: usize| format!(r#"{{"budget": {{"notes": "{}"}}}}"#, "x".repeat(length));
    valid::<TripPatch>(&notes(2_000));
    assert_eq!(faults::<TripPatch>(&notes(2_001)), ["budget.notes: must have at most 2000 characters"]);
}

#[test]
fn an_empty_nationality_clears_it_and_any_other_is_assigned() {
    let trip: TripPatch = valid(r#"{"guestNationality": ""}"#);
    assert_eq!(trip.guest_nationality.into_option(), Some(Nationality::Cleared));
    assert_eq!(valid::<LeadBody>(r#"{"guestNationality": ""}"#).brief().guest_nationality, None);
    for code in ["XX", "UK", "in", "IND", " ", "India"] {
        let body = format!(r#"{{"guestNationality": "{code}"}}"#);
        let expected = ["guestNationality: must be an assigned ISO 3166-1 alpha-2 code, or empty"];
        assert_eq!(faults::<TripPatch>(&body), expected, "{code}");
    }
    both_refuse(&[
        (r#"{"guestNationality": null}"#, "guestNationality: must not be null"),
        (r#"{"guestNationality": 91}"#, "guestNationality: must be a string"),
    ]);
}
