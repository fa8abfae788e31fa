//! The batch of a request, as it is in the events queue.

use super::trace_parent;
use crate::pipeline::events::UnitEvent;
use common::broker::Message;
use common::event::{Envelope, parse_batch};
use common::message::BatchMeta;
use common::trace::{RequestContext, SpanKind, TraceSpan};

/// A message of the events queue that could be parsed.
pub(super) struct EventsMessage<'m> {
    pub(super) meta: BatchMeta,
    pub(super) trace_span: TraceSpan,
    pub(super) request_context: RequestContext,
    pub(super) envelopes: Vec<Envelope<'m>>,
}

/// A message that cannot be parsed and is dead-lettered: the reason, and its request where that is known.
pub(super) struct UnreadableMessage {
    pub(super) reason: &'static str,
    pub(super) request_context: Option<RequestContext>,
}

/// `reason` of a dead letter whose metadata cannot be parsed, or does not match its body.
const REASON_METADATA: &str = "metadata";
/// `reason` of a dead letter whose events cannot be parsed.
const REASON_BODY: &str = "body";

/// The reasons of all dead letters.
pub(super) const UNREADABLE_REASONS: &[&str] = &[REASON_METADATA, REASON_BODY];

impl<'m> EventsMessage<'m> {
    pub(super) fn parse(message: &'m Message) -> Result<Self, UnreadableMessage> {
        let meta = parse_meta(message).ok_or(UnreadableMessage { reason: REASON_METADATA, request_context: None })?;
        let mut trace_span = TraceSpan::begin(trace_parent(meta.traceparent.as_deref()), "batch", SpanKind::Consumer);
        trace_span.set("connect.request_id", || meta.request_id.to_string());
        trace_span.set("connect.events", || i64::from(meta.events));
        let request_context = RequestContext { request_id: meta.request_id, context: trace_span.context() };
        match parse_batch(&message.body, &meta.caller.tenant) {
            Ok(envelopes) => Ok(Self { meta, trace_span, request_context, envelopes }),
            Err(_) => {
                trace_span.fail();
                Err(UnreadableMessage { reason: REASON_BODY, request_context: Some(request_context) })
            }
        }
    }

    pub(super) fn events(&self) -> impl Iterator<Item = UnitEvent<'_>> {
        let Self { meta, request_context, .. } = self;
        let event = |(envelope, ordinal)| UnitEvent { meta, envelope, ordinal, request_context: *request_context };
        self.envelopes.iter().zip(0..).map(event)
    }
}

pub(super) fn parse_meta(message: &Message) -> Option<BatchMeta> {
    serde_json::from_str(message.meta.as_deref()?).ok()
}
