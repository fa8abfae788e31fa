//! The client body.

use super::{faults, refuses, valid};
use crate::record::{ClientBody, TravelerType};

#[test]
fn parses_every_field_of_a_client() {
    let body: ClientBody = valid(
        r#"{"name": " Ana ", "email": " Ana@Example.com ", "phone": "+49 30 1", "company": "Acme", "externalId": "c-1",
            "marketingOptIn": false, "travelers": [
                {"name": "Bo"}, {"name": "Cy", "type": "infant", "age": 0, "email": "c@d.e", "phone": "1"}]}"#,
    );
    assert_eq!(body.name.get().unwrap().as_str(), "Ana");
    assert_eq!(body.email.get().unwrap().key(), "ana@example.com");
    assert_eq!(body.phone.get().unwrap().digits(), "49301");
    assert_eq!(body.company.into_string().unwrap(), "Acme");
    assert_eq!(body.external_id.into_string().unwrap(), "c-1");
    assert_eq!(body.marketing_opt_in.into_option(), Some(false));
    let travelers = body.travelers.into_option().unwrap().into_vec();
    assert_eq!((travelers[0].kind, travelers[0].age.is_sent()), (TravelerType::Adult, false));
    assert_eq!(travelers[1].kind.as_str(), "infant");
    assert_eq!(travelers[1].age.get().unwrap().get(), 0);
    assert!(travelers[1].email.is_sent() && travelers[1].phone.is_sent());
}

#[test]
fn an_omitted_field_is_absent() {
    let body: ClientBody = valid(r#"{"name": "Ana"}"#);
    assert!(!body.email.is_sent() && !body.travelers.is_sent() && !body.marketing_opt_in.is_sent());
}

#[test]
fn an_empty_roster_counts_as_sent() {
    let body: ClientBody = valid(r#"{"travelers": []}"#);
    assert_eq!(body.travelers.get().unwrap().as_slice(), []);
}

#[test]
fn rejects_a_wrong_json_type() {
    refuses::<ClientBody>(&[
        (r#"{"name": 1}"#, "name: must be a string"),
        (r#"{"name": ["a"]}"#, "name: must be a string"),
        (r#"{"email": {}}"#, "email: must be a string"),
        (r#"{"phone": 4930}"#, "phone: must be a string"),
        (r#"{"company": true}"#, "company: must be a string"),
        (r#"{"externalId": 7}"#, "externalId: must be a string"),
        (r#"{"marketingOptIn": 1}"#, "marketingOptIn: must be true or false"),
        (r#"{"marketingOptIn": "yes"}"#, "marketingOptIn: must be true or false"),
        (r#"{"travelers": {}}"#, "travelers: must be an array"),
        (r#"{"travelers": "Ana"}"#, "travelers: must be an array"),
        (r#"{"travelers": ["Ana"]}"#, "travelers[0]: must be an object"),
        (r#"{"travelers": [{"name": 1}]}"#, "travelers[0].name: must be a string"),
        (r#"{"travelers": [{"name": "A", "type": 1}]}"#, "travelers[0].type: must be a string"),
    ]);
}

#[test]
fn rejects_null_at_any_depth() {
    for field in ["name", "email", "phone", "company", "externalId", "marketingOptIn", "travelers"] {
        let expected = format!("{field}: must not be null");
        assert_eq!(faults::<ClientBody>(&format!(r#"{{"{field}": null}}"#)), [expected]);
    }
    refuses::<ClientBody>(&[
        (r#"{"travelers": [null]}"#, "travelers[0]: must not be null"),
        (r#"{"travelers": [{"name": null}]}"#, "travelers[0].name: must not be null"),
        (r#"{"travelers": [{"name": "A", "type": null}]}"#, "travelers[0].type: must not be null"),
        (r#"{"travelers": [{"name": "A", "age": null}]}"#, "travelers[0].age: must not be null"),
        (r#"{"travelers": [{"name": "A", "email": null}]}"#, "travelers[0].email: must not be null"),
    ]);
}

#[test]
fn a_blank_text_is_a_fault() {
    for field in ["name", "email", "phone", "company", "externalId"] {
        for blank in ["", " ", r"\n\t", r"\u00a0"] {
            let expected = format!("{field}: must not be empty");
            assert_eq!(faults::<ClientBody>(&format!(r#"{{"{field}": "{blank}"}}"#)), [expected]);
        }
    }
    refuses::<ClientBody>(&[
        (r#"{"travelers": [{"name": " "}]}"#, "travelers[0].name: must not be empty"),
        (r#"{"travelers": [{"name": "A", "email": ""}]}"#, "travelers[0].email: must not be empty"),
        (
            r#"{"travelers": [{"name": "A", "type": ""}]}"#,
            "travelers[0].type: must be one of adult, child, infant",
        ),
    ]);
}

#[test]
fn texts_have_limits_in_characters() {
    for (field, max) in [("name", 200), ("company", 500), ("externalId", 200)] {
        let body = |length: usize| format!(r#"{{"{field}": " {} "}}"#, "ä".repeat(length));
        valid::<ClientBody>(&body(max));
        let expected = format!("{field}: must have at most {max} characters");
        assert_eq!(faults::<ClientBody>(&body(max + 1)), [expected]);
    }
    let phone = |length: usize| format!(r#"{{"phone": "{}"}}"#, "1".repeat(length));
    valid::<ClientBody>(&phone(40));
    assert_eq!(faults::<ClientBody>(&phone(41)), ["phone: must have at most 40 characters"]);
    let email = format!(r#"{{"email": "a@{}.com"}}"#, "b".repeat(320));
    assert_eq!(faults::<ClientBody>(&email), ["email: must have at most 320 characters"]);
}

#[test]
fn emails_and_phones_have_their_form() {
    refuses::<ClientBody>(&[
        (r#"{"email": "ana"}"#, "email: must be an email address"),
        (r#"{"email": "Ana <a@b.c>"}"#, "email: must be an email address"),
        (r#"{"phone": "n/a"}"#, "phone: must have a digit"),
        (r#"{"travelers": [{"name": "A", "email": "x"}]}"#, "travelers[0].email: must be an email address"),
        (r#"{"travelers": [{"name": "A", "phone": "x"}]}"#, "travelers[0].phone: must have a digit"),
    ]);
}

#[test]
fn an_age_is_a_whole_number_up_to_150() {
    for age in ["0", "150", "2.0", "1e1"] {
        valid::<ClientBody>(&format!(r#"{{"travelers": [{{"name": "A", "age": {age}}}]}}"#));
    }
    for age in ["-1", "151", "2.5", "1e3", "\"2\"", "true", "[]", "18446744073709551616"] {
        let body = format!(r#"{{"travelers": [{{"name": "A", "age": {age}}}]}}"#);
        let expected = ["travelers[0].age: must be a whole number from 0 to 150"];
        assert_eq!(faults::<ClientBody>(&body), expected, "{age}");
    }
}

#[test]
fn a_traveler_has_a_name_and_a_known_type() {
    refuses::<ClientBody>(&[
        (r#"{"travelers": [{}]}"#, "travelers[0].name: is required"),
        (
            r#"{"travelers": [{"name": "A"}, {"name": "B", "type": "Adult"}]}"#,
            "travelers[1].type: must be one of adult, child, infant",
        ),
        (r#"{"travelers": [{"name": "A", "kind": "adult"}]}"#, "travelers[0].kind: is not a known field"),
    ]);
    for (name, kind) in
        [("adult", TravelerType::Adult), ("child", TravelerType::Child), ("infant", TravelerType::Infant)]
    {
        let body = format!(r#"{{"travelers": [{{"name": "A", "type": "{name}"}}]}}"#);
        assert_eq!(valid::<ClientBody>(&body).travelers.get().unwrap().as_slice()[0].kind, kind);
        assert_eq!(kind.as_str(), name);
    }
}

#[test]
fn a_client_has_at_most_50_travelers() {
    let body = |count: usize| format!(r#"{{"travelers": [{}]}}"#, vec![r#"{"name": "A"}"#; count].join(","));
    valid::<ClientBody>(&body(50));
    assert_eq!(faults::<ClientBody>(&body(51)), ["travelers: must have at most 50 items"]);
}
