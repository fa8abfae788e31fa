//! Webhooks as operations of the document (specification: Outbound webhook events).

use super::document::{Content, Operation, OrderedMap, Parameter, PathItem, RequestBody, Response};
use super::schema::{Schema, reference};
use super::schemas::outbound;
use super::value_schemas::{string, uuid};
use super::{delivery, endpoint_texts, examples};
use common::event::OutboundType;
use common::trace::TRACEPARENT;
use std::collections::BTreeMap;

/// All types that are emitted.
pub(super) fn all() -> OrderedMap<&'static str, PathItem> {
    let item = |kind| PathItem { operations: vec![("post".to_owned(), operation(kind))] };
    OutboundType::ALL.iter().map(|kind| (kind.as_str(), item(*kind))).collect()
}

fn operation(kind: OutboundType) -> Operation {
    let schema = reference(outbound::name(kind));
    Operation {
        operation_id: format!("on{}", outbound::name(kind)),
        tags: [endpoint_texts::WEBHOOKS],
        summary: kind.as_str(),
        description: outbound::meaning(kind).to_owned(),
        security: vec![BTreeMap::from([("WebhookSignature", Vec::new())])],
        parameters: headers()
            .map(|(name, description, schema)| parameter(kind, name, description, schema))
            .into(),
        request_body: Some(RequestBody {
            required: true,
            content: Content::json(schema, examples::of_webhook(kind)),
        }),
        responses: responses(),
        samples: Vec::new(),
        delivery: Some(delivery::rules()),
    }
}

/// The headers of a delivery except its signature: name, description and schema.
pub(super) fn headers() -> [(&'static str, &'static str, Schema); 4] {
    let traceparent = Schema { pattern: Some(TRACE), ..string() };
    [
        ("X-Connect-Tenant", "The slug of the agency.", string()),
        (EVENT, "The `eventType`.", string()),
        ("X-Connect-Delivery", "Id of the delivery, the same in every attempt.", uuid()),
        (
            TRACEPARENT,
            "The trace context of the request that caused the event (W3C Trace Context).",
            traceparent,
        ),
    ]
}

/// The header that names the type.
const EVENT: &str = "X-Connect-Event";
/// A trace context of version 00.
const TRACE: &str = "^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$";

fn parameter(kind: OutboundType, name: &'static str, description: &'static str, schema: Schema) -> Parameter {
    let constant = (name == EVENT).then(|| kind.as_str().into());
    let schema = Schema { constant, ..schema };
    Parameter { name, place: "header", required: true, description, schema, example: None }
}

fn responses() -> OrderedMap<String, Response> {
    let response = |description: String| Response { description, ..Response::default() };
    let seconds = delivery::TIMEOUT_SECONDS;
    vec![
        (
            "2XX".to_owned(),
            response(format!(
                "Received, if the response arrives within {seconds} seconds. Its body is ignored."
            )),
        ),
        ("default".to_owned(), response("A failure: the delivery is retried.".to_owned())),
    ]
}
