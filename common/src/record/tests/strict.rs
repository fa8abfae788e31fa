//! Rules that are common to all bodies.

use super::{faults, refuses, valid};
use crate::record::fault::FAULTS_MAX;
use crate::record::{ClientBody, LeadBody, LeadPatch, TripPatch};

#[test]
fn a_body_is_one_json_object() {
    for body in ["[]", "null", "1", "true", r#""name""#] {
        let what = if body == "null" { ": must not be null" } else { ": must be an object" };
        assert_eq!(faults::<ClientBody>(body), [what]);
        assert_eq!(faults::<LeadBody>(body), [what]);
        assert_eq!(faults::<LeadPatch>(body), [what]);
        assert_eq!(faults::<TripPatch>(body), [what]);
    }
}

#[test]
fn accepts_an_empty_object() {
    assert_eq!(valid::<ClientBody>("{}"), ClientBody::default());
    assert_eq!(valid::<LeadBody>(" {} "), LeadBody::default());
    assert_eq!(valid::<LeadPatch>("{}"), LeadPatch::default());
    assert_eq!(valid::<TripPatch>("{}"), TripPatch::default());
}

#[test]
fn rejects_content_that_cannot_be_stored_before_checking_fields() {
    for (body, what) in [
        (r#"{"name": "a\u0000b", "x": 1}"#, "must not contain a NUL character"),
        (r#"{"name": "a"} {}"#, "is not valid JSON"),
        (r#"{"budget": {"amount": 1e999}}"#, "is not valid JSON"),
        ("", "is not valid JSON"),
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
    assert_eq!(
        faults::<ClientBody>(body),
        [
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
        ]
    );
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
    refuses::<LeadPatch>(&[(r#"{"destination": "Goa"}"#, "destination: is not a known field")]);
    refuses::<TripPatch>(&[
        (r#"{"contact": {}}"#, "contact: is not a known field"),
        (r#"{"stage": "inquiry"}"#, "stage: is not a known field"),
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
