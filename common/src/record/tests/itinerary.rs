//! The itinerary of a body.

use super::{faults, itinerary_errors, valid};
use crate::model::text::ITINERARY_BYTES;
use crate::record::itinerary::ERRORS_SHOWN;
use crate::record::{LeadBody, TripPatch};

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
                "title: must not be empty",
                "days[0]: must be an object",
                "days[1].items: must be an array",
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
    assert_eq!(
        itinerary_errors::<LeadBody>(&body(ITINERARY_BYTES + 1)),
        ["itinerary: must have at most 256 KiB"]
    );
}

#[test]
fn limits_the_number_of_listed_errors() {
    let days = vec!["1"; ERRORS_SHOWN + 7].join(",");
    let errors =
        itinerary_errors::<LeadBody>(&format!(r#"{{"itinerary": {{"title": "a", "days": [{days}]}}}}"#));
    assert_eq!(errors.len(), ERRORS_SHOWN + 1);
    assert_eq!(errors[ERRORS_SHOWN], "and 7 more");
}
