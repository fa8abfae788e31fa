//! Headers of requests and of responses (specification: Headers on records routes; D17, D19).

use super::document::{Header, OrderedMap, Parameter};
use super::examples;
use super::schema::{Schema, of_type, one_of_texts};
use super::value_schemas::{string, uuid};
use crate::http::conditions;
use crate::http::idempotency_key::IdempotencyKey;
use crate::http::route::{Endpoint, EndpointKind};
use common::trace::TRACEPARENT;

/// An example of a trace context.
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// The headers of a request, without the credentials.
pub(super) fn of_request(endpoint: Endpoint) -> Vec<Parameter> {
    let own = match endpoint.kind() {
        EndpointKind::Create => Some(idempotency_key(endpoint)),
        EndpointKind::Change => Some(if_match()),
        EndpointKind::Read | EndpointKind::Description => Some(if_none_match()),
        EndpointKind::Intake | EndpointKind::LookUp => None,
    };
    own.into_iter().chain([traceparent()]).collect()
}

/// The headers of every response, including refusals.
pub(super) fn of_every_response() -> OrderedMap<&'static str, Header> {
    let description = "The id of the request. Give it to the operator if you ask about the request.";
    vec![("X-Request-Id", Header { description, required: true, schema: uuid() })]
}

/// The headers of a successful response.
pub(super) fn of_success(endpoint: Endpoint) -> OrderedMap<&'static str, Header> {
    let mut headers = of_every_response();
    match endpoint.kind() {
        EndpointKind::Read | EndpointKind::Create | EndpointKind::Change => {
            headers.push(("ETag", etag("The record's `updatedAt` in double quotes.")));
        }
        EndpointKind::Description => headers.push(("ETag", etag("The version of the description."))),
        EndpointKind::Intake | EndpointKind::LookUp => {}
    }
    if endpoint.kind() == EndpointKind::Create {
        let description =
            "Present, and `true`, if an earlier request with this key and body created the record.";
        headers.push((
            "Idempotent-Replayed",
            Header { description, required: false, schema: one_of_texts(["true"]) },
        ));
    }
    headers
}

fn etag(description: &'static str) -> Header {
    Header {
        description,
        required: true,
        schema: Schema { pattern: Some("^\"[!-~]+\"$"), ..of_type("string") },
    }
}

fn idempotency_key(endpoint: Endpoint) -> Parameter {
    let max = IdempotencyKey::MAX_LEN;
    let schema = Schema {
        min_length: Some(1),
        max_length: Some(max),
        pattern: Some("^[ -~]*[!-~][ -~]*$"),
        ..string()
    };
    let description = "Makes the request safe to repeat. Any printable ASCII text, such as your own id of \
        the record. A repetition with the same key and body gets the same response; with another body the \
        response is 422.";
    Parameter {
        name: "Idempotency-Key",
        place: "header",
        required: true,
        description,
        schema,
        example: examples::idempotency_key(endpoint),
    }
}

fn if_match() -> Parameter {
    let description = "The version that the change is based on: the `ETag` of the record as you read it, a \
        list of them, or `*`. If the record has another version, the response is 412. Without the header, \
        the change is applied to any version.";
    let example = Some("\"2026-05-01T10:00:00.000Z\"");
    Parameter { name: "If-Match", place: "header", required: false, description, schema: etags(), example }
}

fn if_none_match() -> Parameter {
    let description =
        "The `ETag` that you have: the response is 304, without a body, while that is the current version.";
    let example = Some("\"2026-05-01T10:00:00.000Z\"");
    Parameter {
        name: "If-None-Match",
        place: "header",
        required: false,
        description,
        schema: string(),
        example,
    }
}

/// `*`, or quoted ETags with commas between them.
fn etags() -> Schema {
    let pattern = r#"^(\*|(W/)?"[!#-~]*"( *, *(W/)?"[!#-~]*")*)$"#;
    Schema { pattern: Some(pattern), max_length: Some(conditions::IF_MATCH_MAX), ..string() }
}

/// The schema allows any text, because an invalid value is ignored and not refused.
fn traceparent() -> Parameter {
    Parameter {
        name: TRACEPARENT,
        place: "header",
        required: false,
        description: "The trace context of the request (W3C Trace Context): everything that the request causes is \
            part of that trace. An invalid value is ignored.",
        schema: string(),
        example: Some(TRACE),
    }
}
