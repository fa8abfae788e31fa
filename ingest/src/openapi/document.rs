//! The parts of an OpenAPI 3.1 document that this one uses. Names keep the order in which they are declared.

use super::schema::{Schema, in_order};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Pairs that are written as an object, in their order.
pub type OrderedMap<K, V> = Vec<(K, V)>;

/// An OpenAPI 3.1 document.
#[derive(Debug, Serialize)]
pub struct Document {
    /// The version of the OpenAPI specification.
    pub openapi: &'static str,
    /// Title, version, and what holds for all endpoints.
    pub info: Info,
    /// Where it is served.
    pub servers: [Server; 1],
    /// What operations need that say nothing else: those of the records API.
    pub security: Vec<BTreeMap<&'static str, Vec<&'static str>>>,
    /// The groups of endpoints, in order.
    pub tags: Vec<Tag>,
    /// Endpoints by path and method.
    #[serde(serialize_with = "in_order")]
    pub paths: OrderedMap<&'static str, PathItem>,
    /// Webhooks by event type.
    #[serde(serialize_with = "in_order")]
    pub webhooks: OrderedMap<&'static str, PathItem>,
    /// The schemas and security schemes.
    pub components: Components,
}

/// What the API is.
#[derive(Debug, Serialize)]
pub struct Info {
    /// The title of the API.
    pub title: &'static str,
    /// Version of the interface.
    pub version: &'static str,
    /// The summary in one sentence.
    pub summary: &'static str,
    /// Who answers questions.
    pub contact: Contact,
    /// The chapters in one text.
    pub description: String,
    /// The chapters that the description consists of.
    #[serde(skip)]
    pub chapters: Vec<Chapter>,
}

/// Who answers questions about this installation.
#[derive(Debug, Serialize)]
pub struct Contact {
    /// The role of the person.
    pub name: &'static str,
    /// The settings area, where partners see their keys and deliveries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// A chapter of what holds for all endpoints.
#[derive(Clone, Debug)]
pub struct Chapter {
    /// The anchor of links to it.
    pub id: &'static str,
    /// The heading of the chapter.
    pub title: &'static str,
    /// The text in Markdown.
    pub text: String,
}

/// Where it is served.
#[derive(Debug, Serialize)]
pub struct Server {
    /// Relative to the document.
    pub url: &'static str,
    /// What the URL stands for.
    pub description: &'static str,
}

/// A group of endpoints.
#[derive(Debug, Serialize)]
pub struct Tag {
    /// The name by which operations refer to it.
    pub name: &'static str,
    /// What the group is about.
    pub description: &'static str,
}

/// The operations of a path, or of a webhook.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct PathItem {
    /// By method, in lower case.
    #[serde(serialize_with = "in_order")]
    pub operations: OrderedMap<String, Operation>,
}

/// A request to Connect, or a webhook request to a receiver.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// A name for programs.
    pub operation_id: String,
    /// The group it belongs to.
    pub tags: [&'static str; 1],
    /// What it does, in few words.
    pub summary: &'static str,
    /// The details in Markdown.
    pub description: String,
    /// Security schemes and what they must grant; all of a set together.
    pub security: Vec<BTreeMap<&'static str, Vec<&'static str>>>,
    /// Headers, query and path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
    /// The request's body; `None` for requests without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_body: Option<RequestBody>,
    /// The responses by status.
    #[serde(serialize_with = "in_order")]
    pub responses: OrderedMap<String, Response>,
    /// Examples of a call.
    #[serde(rename = "x-codeSamples", skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
    /// How a webhook is delivered.
    #[serde(rename = "x-delivery", skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Value>,
}

/// A header, or a part of the address.
#[derive(Clone, Debug, Serialize)]
pub struct Parameter {
    /// The header's name, or the name in the address.
    pub name: &'static str,
    /// `header`, `query` or `path`.
    #[serde(rename = "in")]
    pub place: &'static str,
    /// Whether the parameter must be sent.
    pub required: bool,
    /// What it is; Markdown.
    pub description: &'static str,
    /// What it may be.
    pub schema: Schema,
    /// A value that the page shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<&'static str>,
}

/// The body of a request.
#[derive(Debug, Serialize)]
pub struct RequestBody {
    /// Always true where there is a body.
    pub required: bool,
    /// Its media type and what it may be.
    pub content: Content,
}

/// The content of a body: JSON, or an HTML page.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct Content {
    /// The schemas by media type.
    #[serde(serialize_with = "in_order")]
    pub types: OrderedMap<&'static str, Media>,
}

/// What a body may be.
#[derive(Debug, Serialize)]
pub struct Media {
    /// What it may be.
    pub schema: Schema,
    /// The examples by name.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "in_order")]
    pub examples: OrderedMap<String, Example>,
}

/// An example of a body.
#[derive(Debug, Serialize)]
pub struct Example {
    /// What the example shows.
    pub summary: &'static str,
    /// The JSON as it is written.
    pub value: Box<RawValue>,
}

/// A response to a request.
#[derive(Debug, Default, Serialize)]
pub struct Response {
    /// What it means; Markdown.
    pub description: String,
    /// Headers that come with it.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "in_order")]
    pub headers: OrderedMap<&'static str, Header>,
    /// The response's body, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// The operations on the record in the response.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "in_order")]
    pub links: OrderedMap<&'static str, Value>,
}

/// A header of a response.
#[derive(Clone, Debug, Serialize)]
pub struct Header {
    /// What it is; Markdown.
    pub description: &'static str,
    /// Whether every such response has the header.
    pub required: bool,
    /// What it may be.
    pub schema: Schema,
}

/// A command that a reader can copy.
#[derive(Debug, Serialize)]
pub struct Sample {
    /// Language, by the name that syntax highlighters use.
    pub lang: &'static str,
    /// The tool that the sample uses.
    pub label: &'static str,
    /// The text of the sample.
    pub source: String,
}

/// The schemas and security schemes, by name.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Components {
    /// Schemas; those of refusals at the end.
    #[serde(serialize_with = "in_order")]
    pub schemas: OrderedMap<String, Schema>,
    /// How requests and webhooks are secured.
    pub security_schemes: Value,
}

impl Content {
    pub(super) fn json(schema: Schema, examples: OrderedMap<String, Example>) -> Self {
        Self::of("application/json", schema, examples)
    }

    /// Of any media type.
    pub(super) fn of(
        media_type: &'static str,
        schema: Schema,
        examples: OrderedMap<String, Example>,
    ) -> Self {
        Self { types: vec![(media_type, Media { schema, examples })] }
    }
}

impl Document {
    /// The schema of that name.
    pub fn schema(&self, name: &str) -> Option<&Schema> {
        self.components.schemas.iter().find(|(known, _)| known == name).map(|(_, schema)| schema)
    }
}
