//! Webhooks as operations of the document (specification: Outbound webhook events).

use super::document::{Content, Named, Operation, Parameter, PathItem, RequestBody, Response};
use super::schema::{Schema, of_type, reference};
use super::schemas::outbound;
use super::texts::{string, uuid};
use super::{delivery, examples, words};
use common::event::OutboundType;
use std::collections::BTreeMap;

/// All types that are emitted.
pub(super) fn all() -> Named<&'static str, PathItem> {
    let item = |kind| PathItem { operations: vec![("post", operation(kind))] };
    OutboundType::ALL.iter().map(|kind| (kind.as_str(), item(*kind))).collect()
}

fn operation(kind: OutboundType) -> Operation {
    let schema = reference(outbound::name(kind));
    Operation {
        operation_id: format!("on{}", outbound::name(kind)),
        tags: [words::WEBHOOKS],
        summary: kind.as_str(),
        description: outbound::meaning(kind).to_owned(),
        security: vec![BTreeMap::from([("WebhookSignature", Vec::new())])],
        parameters: headers(kind),
        request_body: Some(RequestBody {
            required: true,
            content: Content::json(schema, examples::of_webhook(kind)),
        }),
        responses: responses(),
        samples: Vec::new(),
        delivery: Some(delivery::rules()),
    }
}

fn headers(kind: OutboundType) -> Vec<Parameter> {
    let header = |name, description, schema| Parameter {
        name,
        place: "header",
        required: true,
        description,
        schema,
        example: None,
    };
    let event = Schema { constant: Some(kind.as_str().into()), ..of_type("string") };
    vec![
        header("X-Connect-Tenant", "The slug of the agency.", string()),
        header("X-Connect-Event", "The `eventType`.", event),
        header("X-Connect-Delivery", "Id of the delivery, the same in every attempt.", uuid()),
    ]
}

fn responses() -> Named<String, Response> {
    let response = |description: String| Response { description, ..Response::default() };
    let seconds = delivery::TIMEOUT_SECONDS;
    vec![
        (
            "2XX".to_owned(),
            response(format!("Received, when it comes within {seconds} seconds. The body is ignored.")),
        ),
        ("default".to_owned(), response("A failure: the delivery is tried again.".to_owned())),
    ]
}
