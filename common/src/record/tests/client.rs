//! The client body.

use super::{refuses, valid};
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
fn an_empty_roster_counts_as_sent() {
    let body: ClientBody = valid(r#"{"travelers": []}"#);
    assert_eq!(body.travelers.get().unwrap().as_slice(), []);
}

/// The fields' types and limits are tested against their schemas, in `tests/it/openapi/bodies.rs`.
#[test]
fn each_fault_of_a_client_has_its_message() {
    let long = format!(r#"{{"name": "{}"}}"#, "ä".repeat(201));
    refuses::<ClientBody>(&[
        (r#"{"name": 1}"#, "name: must be a string"),
        (r#"{"name": " "}"#, "name: must not be empty"),
        (&long, "name: must have at most 200 characters"),
        (r#"{"email": "Ana <a@b.c>"}"#, "email: must be an email address"),
        (r#"{"phone": "n/a"}"#, "phone: must have a digit"),
        (r#"{"marketingOptIn": "yes"}"#, "marketingOptIn: must be true or false"),
        (r#"{"travelers": {}}"#, "travelers: must be an array"),
        (r#"{"travelers": ["Ana"]}"#, "travelers[0]: must be an object"),
        (r#"{"travelers": [{}]}"#, "travelers[0].name: is required"),
        (
            r#"{"travelers": [{"name": "A", "age": 2.5}]}"#,
            "travelers[0].age: must be a whole number from 0 to 150",
        ),
        (
            r#"{"travelers": [{"name": "A", "type": "Adult"}]}"#,
            "travelers[0].type: must be one of adult, child, infant",
        ),
        (r#"{"travelers": [{"name": "A", "phone": "x"}]}"#, "travelers[0].phone: must have a digit"),
    ]);
}
