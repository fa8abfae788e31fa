//! Headers of requests and of answers (specification: Headers on records routes; D17, D19).

use super::document::{Header, Named, Parameter};
use super::examples;
use super::schema::{Schema, of_type, one_of_texts};
use super::texts::{string, uuid};
use crate::auth::IdempotencyKey;
use crate::conditions;
use crate::route::{Endpoint, Kind};
use common::trace::TRACEPARENT;

/// A place in a trace.
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Those of a request, but for the credentials.
pub(super) fn of_request(endpoint: Endpoint) -> Vec<Parameter> {
    let own = match endpoint.kind() {
        Kind::Create => Some(idempotency_key(endpoint)),
        Kind::Change => Some(if_match()),
        Kind::Read | Kind::Description => Some(if_none_match()),
        Kind::Intake | Kind::LookUp => None,
    };
    own.into_iter().chain([traceparent()]).collect()
}

/// Those of every answer, whatever became of the request.
pub(super) fn of_every_answer() -> Named<&'static str, Header> {
    let description = "The id of the request: name it when you ask about it.";
    vec![("X-Request-Id", Header { description, required: true, schema: uuid() })]
}

/// Those of a successful answer.
pub(super) fn of_success(endpoint: Endpoint) -> Named<&'static str, Header> {
    let mut headers = of_every_answer();
    match endpoint.kind() {
        Kind::Read | Kind::Create | Kind::Change => {
            headers.push(("ETag", etag("The record's `updatedAt` in double quotes.")));
        }
        Kind::Description => headers.push(("ETag", etag("The version of the description."))),
        Kind::Intake | Kind::LookUp => {}
    }
    if endpoint.kind() == Kind::Create {
        let description =
            "There, and `true`, when an earlier request with this key and body created the record.";
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
    let max = IdempotencyKey::LONGEST;
    let schema = Schema {
        min_length: Some(1),
        max_length: Some(max),
        pattern: Some("^[ -~]*[!-~][ -~]*$"),
        ..string()
    };
    let description = "Makes the request safe to repeat. Printable ASCII, of your choice, such as your own \
        id of what is created. Sent again with the same key and body it answers the same; with another body \
        it is 422.";
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
        list of them, or `*`. With a stale one the answer is 412; without it, the change wins.";
    let example = Some("\"2026-05-01T10:00:00.000Z\"");
    Parameter { name: "If-Match", place: "header", required: false, description, schema: etags(), example }
}

fn if_none_match() -> Parameter {
    let description =
        "The `ETag` that you have: the answer is 304, without a body, while that is the current version.";
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
    Schema { pattern: Some(pattern), max_length: Some(conditions::LONGEST), ..string() }
}

/// Any text may stand there: one that can't be read is ignored.
fn traceparent() -> Parameter {
    Parameter {
        name: TRACEPARENT,
        place: "header",
        required: false,
        description: "Your place in a trace (W3C Trace Context): what the request causes is part of that trace. \
            One that can't be read is ignored.",
        schema: string(),
        example: Some(TRACE),
    }
}
