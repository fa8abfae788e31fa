//! The parts of an OpenAPI 3.1 document, as far as this one has them. Names keep the order in which they are
//! written.

use super::schema::{Schema, in_order};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Pairs that are written as an object, in their order.
pub type Named<K, V> = Vec<(K, V)>;

/// The document.
#[derive(Debug, Serialize)]
pub struct Document {
    /// Version of OpenAPI.
    pub openapi: &'static str,
    /// Title, version, and what holds for all endpoints.
    pub info: Info,
    /// Where it is served.
    pub servers: [Server; 1],
    /// Groups of endpoints.
    pub tags: Vec<Tag>,
    /// Endpoints by path and method.
    #[serde(serialize_with = "in_order")]
    pub paths: Named<&'static str, PathItem>,
    /// Webhooks by event type.
    #[serde(serialize_with = "in_order")]
    pub webhooks: Named<&'static str, PathItem>,
    /// What has a name.
    pub components: Components,
}

/// What the API is.
#[derive(Debug, Serialize)]
pub struct Info {
    /// Its name.
    pub title: &'static str,
    /// Version of the interface.
    pub version: &'static str,
    /// In a sentence.
    pub summary: &'static str,
    /// The chapters in one text.
    pub description: String,
    /// The chapters that the description consists of.
    #[serde(skip)]
    pub chapters: Vec<Chapter>,
}

/// A chapter of what holds for all endpoints.
#[derive(Clone, Debug)]
pub struct Chapter {
    /// A word for links.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// Markdown.
    pub text: String,
}

/// Where it is served.
#[derive(Debug, Serialize)]
pub struct Server {
    /// Relative to the document.
    pub url: &'static str,
    /// What that is.
    pub description: &'static str,
}

/// A group of endpoints.
#[derive(Debug, Serialize)]
pub struct Tag {
    /// Its name.
    pub name: &'static str,
    /// What it is about.
    pub description: &'static str,
}

/// The operations of a path, or of a webhook.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct PathItem {
    /// By method, in lower case.
    #[serde(serialize_with = "in_order")]
    pub operations: Named<&'static str, Operation>,
}

/// What can be called, or is called at a receiver.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// A name for programs.
    pub operation_id: String,
    /// The group it belongs to.
    pub tags: [&'static str; 1],
    /// What it does, in few words.
    pub summary: &'static str,
    /// What is to be known of it; Markdown.
    pub description: String,
    /// Security schemes and what they must grant; all of a set together.
    pub security: Vec<BTreeMap<&'static str, Vec<&'static str>>>,
    /// Headers, query and path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
    /// The body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_body: Option<RequestBody>,
    /// Answers by status.
    #[serde(serialize_with = "in_order")]
    pub responses: Named<String, Response>,
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
    /// Its name.
    pub name: &'static str,
    /// `header`, `query` or `path`.
    #[serde(rename = "in")]
    pub place: &'static str,
    /// Whether it must be there.
    pub required: bool,
    /// What it is; Markdown.
    pub description: &'static str,
    /// What it may be.
    pub schema: Schema,
    /// An example.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<&'static str>,
}

/// The body of a request.
#[derive(Debug, Serialize)]
pub struct RequestBody {
    /// Always, where there is one.
    pub required: bool,
    /// Its media type and what it may be.
    pub content: Content,
}

/// Something in JSON, or a page.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct Content {
    /// By media type.
    #[serde(serialize_with = "in_order")]
    pub types: Named<&'static str, Media>,
}

/// What a body may be.
#[derive(Debug, Serialize)]
pub struct Media {
    /// What it may be.
    pub schema: Schema,
    /// Examples by name.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "in_order")]
    pub examples: Named<String, Example>,
}

/// An example of a body.
#[derive(Debug, Serialize)]
pub struct Example {
    /// What it shows.
    pub summary: &'static str,
    /// The JSON as it is written.
    pub value: Box<RawValue>,
}

/// An answer.
#[derive(Debug, Default, Serialize)]
pub struct Response {
    /// What it means; Markdown.
    pub description: String,
    /// Headers that come with it.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "in_order")]
    pub headers: Named<&'static str, Header>,
    /// Its body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// Where its record can be addressed.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "in_order")]
    pub links: Named<&'static str, Value>,
}

/// A header of an answer.
#[derive(Clone, Debug, Serialize)]
pub struct Header {
    /// What it is; Markdown.
    pub description: &'static str,
    /// Whether every such answer has it.
    pub required: bool,
    /// What it may be.
    pub schema: Schema,
}

/// A call that can be copied.
#[derive(Debug, Serialize)]
pub struct Sample {
    /// Language, as highlighters name it.
    pub lang: &'static str,
    /// What it is made with.
    pub label: &'static str,
    /// The text.
    pub source: String,
}

/// What has a name.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Components {
    /// Schemas; those of refusals at the end.
    #[serde(serialize_with = "in_order")]
    pub schemas: Named<String, Schema>,
    /// How requests and webhooks are secured.
    pub security_schemes: Value,
}

impl Content {
    /// JSON.
    pub(super) fn json(schema: Schema, examples: Named<String, Example>) -> Self {
        Self::of("application/json", schema, examples)
    }

    /// Of any media type.
    pub(super) fn of(media_type: &'static str, schema: Schema, examples: Named<String, Example>) -> Self {
        Self { types: vec![(media_type, Media { schema, examples })] }
    }
}

impl Document {
    /// A named schema.
    pub fn schema(&self, name: &str) -> Option<&Schema> {
        self.components.schemas.iter().find(|(known, _)| known == name).map(|(_, schema)| schema)
    }
}
