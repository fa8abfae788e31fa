//! Facts for which OpenAPI has no field are in the descriptions.

use crate::openapi;
use crate::openapi::document::{Document, Operation};

fn operations(document: &Document) -> impl Iterator<Item = &Operation> {
    document.paths.iter().flat_map(|(_, item)| item.operations.iter().map(|(_, operation)| operation))
}

#[test]
fn a_look_up_whose_parameters_are_all_optional_says_that_it_needs_one() {
    let document = openapi::document();
    let look_ups = operations(&document).filter(|operation| {
        let mut query = operation.parameters.iter().filter(|parameter| parameter.place == "query").peekable();
        query.peek().is_some() && query.all(|parameter| !parameter.required)
    });
    let described: Vec<_> = look_ups.map(|operation| &operation.description).collect();
    assert_eq!(described.len(), 1);
    assert!(described[0].contains("`lookup_field_required`"), "{described:?}");
}

#[test]
fn a_method_that_is_not_taken_is_another_than_the_one_described() {
    let document = openapi::document();
    for operation in operations(&document) {
        let (_, refusal) = operation.responses.iter().find(|(status, _)| status == "405").unwrap();
        assert!(refusal.description.contains("the path's other methods"), "{}", refusal.description);
    }
}

#[test]
fn requests_may_have_a_trace_context_and_every_response_has_an_id() {
    let document = openapi::document();
    for operation in operations(&document) {
        let trace = operation.parameters.iter().find(|parameter| parameter.name == "traceparent").unwrap();
        assert!(trace.place == "header" && !trace.required);
        for (status, response) in &operation.responses {
            let id = response.headers.iter().find(|(name, _)| *name == "X-Request-Id");
            let (_, id) = id.unwrap_or_else(|| panic!("{} {status}", operation.operation_id));
            assert!(id.required && id.schema.format == Some("uuid"));
        }
    }
}
