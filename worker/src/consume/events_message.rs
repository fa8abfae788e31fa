//! The content of a message of the events queue: the batch of one request, or a bundle of several requests' batches.

use super::trace_parent;
use crate::pipeline::events::UnitEvent;
use common::broker::Message;
use common::event::{Envelope, EventResult, parse_batch, parse_events};
use common::log_limit::LogLimit;
use common::message::{BatchMeta, BatchPart};
use common::trace::{RequestContext, SpanKind, TraceSpan};
use common::{bundle, limited};

/// A message of the events queue whose metadata could be parsed.
pub(super) struct EventsMessage<'m> {
    pub(super) meta: BatchMeta,
    /// One part for each request; a message that is no bundle has one part.
    pub(super) parts: Vec<Part<'m>>,
}

pub(super) struct Part<'m> {
    pub(super) trace_span: TraceSpan,
    pub(super) request_context: RequestContext,
    /// Index of its first event within the message.
    pub(super) first_ordinal: i16,
    pub(super) envelopes: Vec<Envelope<'m>>,
    /// Whether the events of a part of a bundle could not be parsed. The other parts are applied and replied to, and then the
    /// bundle is dead-lettered as a whole.
    pub(super) is_malformed: bool,
}

/// A message that cannot be parsed and is dead-lettered: the reason, and its request where that is known.
pub(super) struct UnreadableMessage {
    pub(super) reason: &'static str,
    pub(super) request_context: Option<RequestContext>,
}

/// The number of events of a part differs from its metadata.
struct EventCountMismatch;

/// `reason` of a dead letter whose metadata cannot be parsed, or does not match its body.
const REASON_METADATA: &str = "metadata";
/// `reason` of a dead letter whose events cannot be parsed.
pub(super) const REASON_BODY: &str = "body";

/// Limits the log lines about bundles whose parts do not match their body.
static INCONSISTENT_BUNDLES: LogLimit<1> = LogLimit::new();

/// The reasons of all dead letters.
pub(super) const UNREADABLE_REASONS: &[&str] = &[REASON_METADATA, REASON_BODY];

impl<'m> EventsMessage<'m> {
    pub(super) fn parse(message: &'m Message) -> Result<Self, UnreadableMessage> {
        let meta = parse_meta(message).ok_or(UnreadableMessage { reason: REASON_METADATA, request_context: None })?;
        let parts = if meta.parts.is_empty() { parse_single(message, &meta) } else { parse_bundle(message, &meta) }?;
        Ok(Self { meta, parts })
    }

    pub(super) fn events(&self) -> impl Iterator<Item = UnitEvent<'_>> {
        self.parts.iter().flat_map(|part| {
            let ordinals = part.first_ordinal..;
            part.envelopes.iter().zip(ordinals).map(|(envelope, ordinal)| UnitEvent {
                meta: &self.meta,
                envelope,
                ordinal,
                request_context: part.request_context,
            })
        })
    }

    /// The body of the reply, made of the results of each part.
    pub(super) fn reply(&self, results: Vec<Vec<EventResult>>) -> Vec<u8> {
        let of_part = |(part, results): (&Part<'_>, _)| (!part.is_malformed).then_some(results);
        bundle::write_reply(self.parts.iter().zip(results).map(of_part).collect())
    }

    /// The request that the message belongs to; `None` for a bundle.
    pub(super) fn request_context(&self) -> Option<RequestContext> {
        let [part] = self.parts.as_slice() else { return None };
        Some(part.request_context)
    }
}

fn parse_single<'m>(message: &'m Message, meta: &BatchMeta) -> Result<Vec<Part<'m>>, UnreadableMessage> {
    let (mut trace_span, request_context) = begin_span(meta, None);
    match parse_batch(&message.body, &meta.caller.tenant) {
        Ok(envelopes) => {
            Ok(vec![Part { trace_span, request_context, first_ordinal: 0, envelopes, is_malformed: false }])
        }
        Err(_) => {
            trace_span.fail();
            Err(UnreadableMessage { reason: REASON_BODY, request_context: Some(request_context) })
        }
    }
}

fn parse_bundle<'m>(message: &'m Message, meta: &BatchMeta) -> Result<Vec<Part<'m>>, UnreadableMessage> {
    let mismatch = || {
        let (span, request_ids) = (message.span(), meta.request_ids());
        span.in_scope(|| {
            limited!(
                INCONSISTENT_BUNDLES[0],
                error,
                request_ids,
                "the parts of a bundle do not match its body; dead-lettering the message"
            );
        });
        UnreadableMessage { reason: REASON_METADATA, request_context: None }
    };
    let texts = bundle::split(&message.body, meta).ok_or_else(mismatch)?;
    let mut first_ordinal = 0;
    let mut parts = Vec::with_capacity(texts.len());
    for (part, text) in meta.parts.iter().zip(texts) {
        parts.push(parse_part(meta, part, text, first_ordinal).map_err(|EventCountMismatch| mismatch())?);
        first_ordinal += i16::try_from(part.events).map_err(|_| mismatch())?;
    }
    Ok(parts)
}

fn parse_part<'m>(
    meta: &BatchMeta, part: &BatchPart, text: &'m [u8], first_ordinal: i16,
) -> Result<Part<'m>, EventCountMismatch> {
    let (mut trace_span, request_context) = begin_span(meta, Some(part));
    match parse_events(text, &meta.caller.tenant) {
        Ok(envelopes) if envelopes.len() == usize::from(part.events) => {
            Ok(Part { trace_span, request_context, first_ordinal, envelopes, is_malformed: false })
        }
        Ok(_) => Err(EventCountMismatch),
        Err(_) => {
            trace_span.fail();
            let envelopes = Vec::new();
            Ok(Part { trace_span, request_context, first_ordinal, envelopes, is_malformed: true })
        }
    }
}

fn begin_span(meta: &BatchMeta, part: Option<&BatchPart>) -> (TraceSpan, RequestContext) {
    let (request_id, events, sent) = match part {
        Some(part) => (part.request_id, part.events, &part.traceparent),
        None => (meta.request_id, meta.events, &meta.traceparent),
    };
    let mut trace_span = TraceSpan::begin(trace_parent(sent.as_deref()), "batch", SpanKind::Consumer);
    trace_span.set("connect.request_id", || request_id.to_string());
    trace_span.set("connect.events", || i64::from(events));
    let request_context = RequestContext { request_id, context: trace_span.context() };
    (trace_span, request_context)
}

pub(super) fn parse_meta(message: &Message) -> Option<BatchMeta> {
    serde_json::from_str(message.meta.as_deref()?).ok()
}
