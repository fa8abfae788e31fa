//! The client body.

use super::{refuses, valid};
use crate::record::ClientBody;

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
