//! Tests of every rule of the bodies, each as a table.

use super::{BodyError, RecordBody, parse};
use crate::model::text::ITINERARY_BYTES;
use crate::record::fault::FAULTS_MAX;
use crate::record::itinerary::ERRORS_SHOWN;
use crate::record::{ClientBody, LeadBody, LeadPatch, Nationality, TripPatch};
use std::fmt::Debug;

fn valid<T: RecordBody>(body: &str) -> T {
    parse(body.as_bytes()).unwrap_or_else(|refused| panic!("{body}: {refused:?}"))
}

/// The faults of a body, each as `place: what`.
fn faults<T: RecordBody + Debug>(body: &str) -> Vec<String> {
    match parse::<T>(body.as_bytes()) {
        Err(BodyError::Invalid(faults)) => {
            faults.0.into_iter().map(|fault| format!("{}: {}", fault.place, fault.what)).collect()
        }
        other => panic!("{body}: {other:?}"),
    }
}

/// The errors of the itinerary of a body that is otherwise valid.
fn itinerary_errors<T: RecordBody + Debug>(body: &str) -> Vec<String> {
    match parse::<T>(body.as_bytes()) {
        Err(BodyError::InvalidItinerary(errors)) => errors,
        other => panic!("{body}: {other:?}"),
    }
}

/// Checks that a body has exactly one fault for each row.
fn refuses<T: RecordBody + Debug>(rows: &[(&str, &str)]) {
    for (body, fault) in rows {
        assert_eq!(faults::<T>(body), [*fault], "{body}");
    }
}

#[test]
fn rejects_content_that_cannot_be_stored_before_checking_fields() {
    for (body, what) in [
        (r#"{"name": "a\u0000b", "x": 1}"#, "must not contain a NUL character"),
        (r#"{"name": "a"} {}"#, "is not valid JSON"),
        (r#"{"budget": {"amount": 1e999}}"#, "is not valid JSON"),
        (" ", "is not valid JSON"),
        ("", "is empty"),
    ] {
        let found = faults::<ClientBody>(body);
        assert!(found.len() == 1 && found[0].starts_with(&format!(": {what}")), "{body}: {found:?}");
    }
    let deep = format!(r#"{{"x": {}{}}}"#, "[".repeat(64), "]".repeat(64));
    assert!(faults::<ClientBody>(&deep)[0].contains("64 levels"));
}

#[test]
fn every_fault_is_named_with_its_place_in_the_order_of_the_body() {
    let body = r#"{
        "emial": "a@b.c", "email": "nobody", "name": 1, "marketingOptIn": "true",
        "travelers": [{"name": "Ana"}, {"type": "dog", "age": 2.5, "nick": {}}, null], "phone": null
    }"#;
    let expected = [
        "emial: is not a known field",
        "email: must be an email address",
        "name: must be a string",
        "marketingOptIn: must be true or false",
        "travelers[1].type: must be one of adult, child, infant",
        "travelers[1].age: must be a whole number from 0 to 150",
        "travelers[1].nick: is not a known field",
        "travelers[1].name: is required",
        "travelers[2]: must not be null",
        "phone: must not be null",
    ];
    assert_eq!(faults::<ClientBody>(body), expected);
}

#[test]
fn rejects_a_repeated_field_at_any_depth() {
    refuses::<LeadBody>(&[
        (r#"{"title": "a", "title": "a"}"#, "title: is given more than once"),
        (r#"{"title": "a", "t\u0069tle": "b"}"#, "title: is given more than once"),
        (r#"{"party": {"adults": 1, "rooms": 1, "adults": 2}}"#, "party.adults: is given more than once"),
        (
            r#"{"itinerary": {"title": "a", "days": [{"title": "b", "items": [{"title": "c", "x": [{"y": 1, "y": 1}]}]}]}}"#,
            "itinerary.days[0].items[0].x[0].y: is given more than once",
        ),
    ]);
}

#[test]
fn a_repeated_field_does_not_hide_the_other_faults() {
    assert_eq!(
        faults::<LeadPatch>(r#"{"x": 1, "followUp": true, "followUp": 1}"#),
        ["followUp: is given more than once", "x: is not a known field", "followUp: must be true or false"]
    );
}

#[test]
fn fields_are_known_by_their_exact_name() {
    refuses::<ClientBody>(&[
        (r#"{"Email": "a@b.c"}"#, "Email: is not a known field"),
        (r#"{"external_id": "1"}"#, "external_id: is not a known field"),
        (r#"{"": 1}"#, r#"[""]: is not a known field"#),
        (r#"{"a b": 1}"#, r#"["a b"]: is not a known field"#),
    ]);
}

#[test]
fn stops_parsing_after_the_most_faults() {
    let unknown: Vec<String> = (0..5_000).map(|i| format!(r#""x{i}": 0"#)).collect();
    assert_eq!(faults::<ClientBody>(&format!("{{{}}}", unknown.join(","))).len(), FAULTS_MAX);
    let repeated = vec![r#""name": "a""#; 5_000];
    assert_eq!(faults::<ClientBody>(&format!("{{{}}}", repeated.join(","))).len(), FAULTS_MAX);
    let travelers = vec!["null"; 5_000];
    let body = format!(r#"{{"travelers": [{}]}}"#, travelers.join(","));
    assert_eq!(faults::<ClientBody>(&body).len(), 51);
}

/// The fields' types and limits are tested against their schemas, in `tests/it/openapi/bodies.rs`.
#[test]
fn each_fault_of_a_client_has_its_message() {
    let long = format!(r#"{{"name": "{}"}}"#, "ä".repeat(201));
    refuses::<ClientBody>(&[
        (r#"{"name": " "}"#, "name: must not be empty"),
        (&long, "name: must have at most 200 characters"),
        (r#"{"email": "Ana <a@b.c>"}"#, "email: must be an email address"),
        (r#"{"phone": "n/a"}"#, "phone: must have a digit"),
        (r#"{"travelers": {}}"#, "travelers: must be an array"),
        (r#"{"travelers": ["Ana"]}"#, "travelers[0]: must be an object"),
        (
            r#"{"travelers": [{"name": "A", "type": "Adult"}]}"#,
            "travelers[0].type: must be one of adult, child, infant",
        ),
        (r#"{"travelers": [{"name": "A", "phone": "x"}]}"#, "travelers[0].phone: must have a digit"),
    ]);
}

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
        ("party", r#"{"adults": 2.0000000000000000001}"#, "party.adults: must be a whole number from 0 to 1000"),
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
        ("budget", r#"{"amount": 1, "currency": "inr"}"#, "budget.currency: must be an ISO 4217 currency code"),
        ("budget", r#"{"notes": " "}"#, "budget.notes: must not be empty"),
        ("guestNationality", r#""XX""#, "guestNationality: must be an assigned ISO 3166-1 alpha-2 code, or empty"),
    ] {
        let body = format!(r#"{{"{field}": {value}}}"#);
        assert_eq!(faults::<LeadBody>(&body), [fault]);
        assert_eq!(faults::<TripPatch>(&body), [fault]);
    }
}

#[test]
fn an_empty_nationality_clears_it() {
    let trip: TripPatch = valid(r#"{"guestNationality": ""}"#);
    assert_eq!(trip.guest_nationality.into_option(), Some(Nationality::Cleared));
    assert_eq!(valid::<LeadBody>(r#"{"guestNationality": ""}"#).brief().guest_nationality, None);
}

#[test]
fn a_marketing_block_without_text_is_none() {
    for nothing in ["{}", r#"{"source": ""}"#] {
        let lead: LeadBody = valid(&format!(r#"{{"attribution": {nothing}}}"#));
        assert_eq!(lead.attribution.get().unwrap().block(), None);
    }
}

#[test]
fn an_itinerary_is_kept_as_sent() {
    let sent = r#"{ "days" : [ {"title":"1", "items":[{"z":1.10, "title":"x", "a":null, "b":{"c":[1e2,12345678901234567890123]}}]} ],
        "title":"G\u006fa" }"#;
    let body = format!(r#"{{"title": "x", "itinerary":{sent}, "message": "y"}}"#);
    assert_eq!(valid::<TripPatch>(&body).itinerary.into_string().as_deref(), Some(sent));
    assert_eq!(valid::<LeadBody>(&body).itinerary.get().unwrap().as_str(), sent);
    assert!(!valid::<LeadBody>("{}").itinerary.is_sent());
    let escaped = format!(r#"{{"itiner\u0061ry": {sent}}}"#);
    assert_eq!(valid::<LeadBody>(&escaped).itinerary.get().unwrap().as_str(), sent);
}

#[test]
fn reports_the_errors_of_an_itinerary() {
    for (itinerary, errors) in [
        ("{}", &["title: is required", "days: is required"][..]),
        (r#""Goa""#, &["itinerary: must be an object"]),
        ("[]", &["itinerary: must be an object"]),
        (r#"{"title": 1, "days": "x"}"#, &["title: must be a string", "days: must be an array"]),
        (
            r#"{"title": " ", "days": [1, {"title": "a"}, {"title": "b", "items": [{}]}]}"#,
            &[
                "title: must not be empty", "days[0]: must be an object", "days[1].items: must be an array",
                "days[2].items[0].title: is required",
            ],
        ),
    ] {
        let body = format!(r#"{{"itinerary": {itinerary}}}"#);
        assert_eq!(itinerary_errors::<LeadBody>(&body), errors, "{itinerary}");
        assert_eq!(itinerary_errors::<TripPatch>(&body), errors, "{itinerary}");
    }
}

#[test]
fn reports_itinerary_errors_only_when_the_rest_of_the_body_is_valid() {
    let body = r#"{"itinerary": {}, "title": 1}"#;
    assert_eq!(faults::<LeadBody>(body), ["title: must be a string"]);
}

#[test]
fn rejects_an_itinerary_that_is_too_large() {
    let body = |bytes: usize| {
        let frame = r#"{"title":"a","days":[{"title":"b","items":[{"title":"c","x":""}]}]}"#;
        let filled = frame.replace(r#""x":"""#, &format!(r#""x":"{}""#, "x".repeat(bytes - frame.len())));
        format!(r#"{{"itinerary": {filled}}}"#)
    };
    valid::<LeadBody>(&body(ITINERARY_BYTES));
    let expected = ["itinerary: must have at most 256 KiB"];
    assert_eq!(itinerary_errors::<LeadBody>(&body(ITINERARY_BYTES + 1)), expected);
}

#[test]
fn limits_the_number_of_listed_errors() {
    let days = vec!["1"; ERRORS_SHOWN + 7].join(",");
    let errors = itinerary_errors::<LeadBody>(&format!(r#"{{"itinerary": {{"title": "a", "days": [{days}]}}}}"#));
    assert_eq!(errors.len(), ERRORS_SHOWN + 1);
    assert_eq!(errors[ERRORS_SHOWN], "and 7 more");
}
