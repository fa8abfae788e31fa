//! A message as a handler sees it.

use super::mac::{MacError, MessageKeys, Purpose};
use super::rpc::META_HEADER;
use super::settle::MessageOutcome;
use super::topology::Queue;
use crate::bundle::{BundleMeta, BundlePart};
use crate::trace::{TRACEPARENT, TraceContext};
use lapin::BasicProperties;
use lapin::types::{AMQPValue, ShortString};
use tracing::Span;
use tracing::field::display;
use uuid::Uuid;

/// A message of a queue, parsed.
#[derive(Clone, Debug)]
pub struct Message {
    /// The body as published.
    pub body: Vec<u8>,
    /// JSON metadata of the publisher; `None` when the header is absent or not text.
    pub meta: Option<String>,
    /// The publisher's trace context: the header `traceparent`.
    pub traceparent: Option<String>,
    /// The AMQP message id, unless it is absent or blank.
    pub message_id: Option<String>,
    /// The id of the request: the message id or the correlation id, if it is a UUID. Other publishers may set any text.
    pub request_id: Option<Uuid>,
    /// Whether the publisher asks for a reply.
    pub wants_reply: bool,
    /// As they were sent.
    pub(super) properties: BasicProperties,
    /// The requests of a bundle; empty for the message of one request.
    pub(super) parts: Vec<Part>,
}

/// A request of a bundle.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) request: Message,
    pub(super) weight: usize,
    /// `None` until it is handled.
    pub(super) outcome: Option<MessageOutcome>,
}

impl Message {
    /// Parses an AMQP message of `queue`, and verifies its MAC. A message that does not verify must not be handled; only its
    /// ids may be logged.
    pub fn from_delivery(
        queue: Queue, keys: &MessageKeys, properties: BasicProperties, body: Vec<u8>,
    ) -> (Self, Result<(), MacError>) {
        let verified = keys.verify(Purpose::Message(queue), &properties, &body);
        let mut message = Self::read(properties, body);
        if verified.is_ok() && matches!(queue, Queue::Events | Queue::Records) {
            message.split();
        }
        (message, verified)
    }

    /// The requests in it that are not handled: itself, or those of a bundle.
    pub(super) fn requests(&self) -> impl Iterator<Item = &Self> {
        let alone = self.parts.is_empty().then_some(self);
        alone.into_iter().chain(self.parts.iter().filter(|part| part.outcome.is_none()).map(|part| &part.request))
    }

    /// Moves the body of a bundle into its parts. One whose metadata does not match its body stays a message whose metadata no
    /// handler can parse.
    fn split(&mut self) {
        let meta = self.meta.as_deref().and_then(|meta| serde_json::from_str::<BundleMeta>(meta).ok());
        let Some((texts, parts)) = meta.and_then(|meta| Some((meta.split(&self.body)?, meta.parts))) else { return };
        let part = |((meta, body), part): ((String, &[u8]), BundlePart)| {
            let request = Self { meta: Some(meta), ..Self::read(BasicProperties::default(), body.to_owned()) };
            Part { request, weight: part.weight.into(), outcome: None }
        };
        self.parts = texts.into_iter().zip(parts).map(part).collect();
        self.body = Vec::new();
    }

    fn read(properties: BasicProperties, body: Vec<u8>) -> Self {
        Self {
            body,
            meta: header(&properties, META_HEADER),
            traceparent: header(&properties, TRACEPARENT),
            message_id: message_id(&properties),
            request_id: request_id(&properties),
            wants_reply: properties.reply_to().is_some(),
            properties,
            parts: Vec::new(),
        }
    }

    /// JSON of its properties, to be stored beside its body.
    pub fn stored_properties(&self) -> String {
        serde_json::to_string(&self.properties).expect("properties have string keys")
    }

    /// A message that was stored. Properties that cannot be read were written by another release, and count as not sent.
    pub fn from_stored(properties: &str, body: Vec<u8>) -> Self {
        Self::read(serde_json::from_str(properties).unwrap_or_default(), body)
    }

    /// The span of log lines about the message, with the request and trace that its ids and headers name.
    pub fn span(&self) -> Span {
        let context = self.traceparent.as_deref().and_then(TraceContext::parse);
        let request_id = self.request_id.map(display);
        let trace_id = context.map(|context| display(context.trace_id));
        tracing::error_span!("message", request_id, trace_id)
    }
}

fn request_id(properties: &BasicProperties) -> Option<Uuid> {
    let ids = [properties.message_id(), properties.correlation_id()];
    ids.into_iter().flatten().find_map(|id| Uuid::try_parse(id.as_str()).ok())
}

fn message_id(properties: &BasicProperties) -> Option<String> {
    let id = properties.message_id().as_ref()?.as_str();
    (!id.trim().is_empty()).then(|| id.to_owned())
}

fn header(properties: &BasicProperties, name: &str) -> Option<String> {
    let headers = properties.headers().as_ref()?;
    let AMQPValue::LongString(text) = headers.inner().get(&ShortString::from(name))? else {
        return None;
    };
    std::str::from_utf8(text.as_bytes()).ok().map(str::to_owned)
}
