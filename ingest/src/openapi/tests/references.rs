//! The references within the document are consistent.

use crate::openapi;
use common::event::OutboundType;
use serde_json::Value;
use std::collections::HashSet;

fn walk(value: &Value, visit: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            visit(name, value);
            walk(value, visit);
        }),
        Value::Array(items) => items.iter().for_each(|item| walk(item, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_reference_resolves() {
    let document = openapi::document();
    let json = serde_json::to_value(&document).unwrap();
    let operations: HashSet<String> = document
        .paths
        .iter()
        .chain(&document.webhooks)
        .flat_map(|(_, item)| item.operations.iter().map(|(_, operation)| operation.operation_id.clone()))
        .collect();
    let tags: HashSet<&str> = document.tags.iter().map(|tag| tag.name).collect();
    let mut count = 0;
    walk(&json, &mut |name, value| match name {
        "$ref" => {
            count += 1;
            let target = value.as_str().unwrap().strip_prefix('#').unwrap();
            assert!(json.pointer(target).is_some(), "{target}");
        }
        "operationId" => assert!(operations.contains(value.as_str().unwrap()), "{value}"),
        "security" => {
            value.as_array().unwrap().iter().flat_map(|set| set.as_object().unwrap().keys()).for_each(
                |scheme| {
                    assert!(json["components"]["securitySchemes"].get(scheme).is_some(), "{scheme}");
                },
            );
        }
        "tags" if value[0].is_string() => assert!(tags.contains(value[0].as_str().unwrap()), "{value}"),
        _ => {}
    });
    assert!(count > 100);
    assert_eq!(
        operations.len(),
        document.paths.iter().chain(&document.webhooks).map(|(_, item)| item.operations.len()).sum::<usize>()
    );
}

#[test]
fn every_schema_of_a_payload_is_that_of_the_types_it_is_for() {
    let document = openapi::document();
    let json = serde_json::to_value(&document).unwrap();
    let payload = &json["components"]["schemas"]["InboundEvent"]["properties"]["payload"];
    let by_type = payload["x-payload-schemas"].as_object().unwrap();
    for (kind, path) in by_type {
        let target = path.as_str().unwrap().strip_prefix('#').unwrap();
        let about = json.pointer(target).unwrap()["description"].as_str().unwrap();
        assert!(about.contains(&format!("`{kind}`")), "{kind}: {about}");
    }
    assert_eq!(by_type.len(), 7);
}

#[test]
fn names_are_given_once() {
    let document = openapi::document();
    let names: HashSet<&String> = document.components.schemas.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), document.components.schemas.len());
}

#[test]
fn every_type_that_is_emitted_is_a_webhook() {
    let document = openapi::document();
    let described: Vec<&str> = document.webhooks.iter().map(|(kind, _)| *kind).collect();
    let emitted: Vec<&str> = OutboundType::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(described, emitted);
    assert_eq!(described.len(), 6);
}
