//! What a message of the events queue holds: the batch of one request, or a bundle of several requests' batches.

use super::parent;
use crate::pipeline::events::UnitEvent;
use common::broker::{DeadPart, Message};
use common::bundle;
use common::event::{Envelope, EventResult, parse_batch, parse_events};
use common::limited;
use common::log_limit::LogLimit;
use common::message::{BatchMeta, BatchPart};
use common::trace::{SpanKind, TraceSpan, Trail};

/// A message that could be read.
pub(super) struct Batch<'m> {
    pub(super) meta: BatchMeta,
    /// One for each request.
    pub(super) parts: Vec<Part<'m>>,
}

/// The events of one request.
pub(super) struct Part<'m> {
    pub(super) traced: TraceSpan,
    pub(super) trail: Trail,
    /// The place of its first event in the message.
    pub(super) first_ordinal: i16,
    /// Empty when they could not be read, which only a part of a bundle survives.
    pub(super) envelopes: Vec<Envelope<'m>>,
    /// What becomes of it when they could not be read.
    unreadable: Option<DeadPart>,
}

/// Why a message can't be read, and what it is due to, as far as that is known.
pub(super) struct Poison {
    pub(super) reason: &'static str,
    pub(super) trail: Option<Trail>,
}

/// A part's events could be read and aren't as many as its metadata says.
struct WrongCount;

/// `reason` of a dead letter whose metadata can't be read, or doesn't fit its body.
const METADATA: &str = "metadata";
/// `reason` of a dead letter whose events can't be read.
const BODY: &str = "body";

/// Which bundles are logged whose parts do not fit.
static INCONSISTENT: LogLimit<1> = LogLimit::new();

/// The reasons of all dead letters.
pub(super) const REASONS: &[&str] = &[METADATA, BODY];

impl<'m> Batch<'m> {
    pub(super) fn read(message: &'m Message) -> Result<Self, Poison> {
        let meta = read_meta(message).ok_or(Poison { reason: METADATA, trail: None })?;
        let parts = if meta.parts.is_empty() { single(message, &meta) } else { bundled(message, &meta) }?;
        Ok(Self { meta, parts })
    }

    pub(super) fn events(&self) -> impl Iterator<Item = UnitEvent<'_>> {
        self.parts.iter().flat_map(|part| {
            let ordinals = part.first_ordinal..;
            part.envelopes.iter().zip(ordinals).map(|(envelope, ordinal)| UnitEvent {
                meta: &self.meta,
                envelope,
                ordinal,
                trail: part.trail,
            })
        })
    }

    /// The reply's body, given the results of each part.
    pub(super) fn reply(&self, results: Vec<Vec<EventResult>>) -> Vec<u8> {
        let of_part = |(part, results): (&Part<'_>, _)| part.unreadable.is_none().then_some(results);
        bundle::write_reply(self.parts.iter().zip(results).map(of_part).collect())
    }

    /// The request that the message belongs to; of a bundle, the bundle.
    pub(super) fn trail(&self) -> Option<Trail> {
        let [part] = self.parts.as_slice() else { return None };
        Some(part.trail)
    }

    /// Takes the parts that have to be dead-lettered.
    pub(super) fn take_unreadable(&mut self) -> Vec<DeadPart> {
        self.parts.iter_mut().filter_map(|part| part.unreadable.take()).collect()
    }
}

/// The one part of the batch of a single request.
fn single<'m>(message: &'m Message, meta: &BatchMeta) -> Result<Vec<Part<'m>>, Poison> {
    let (mut traced, trail) = begin(meta, None);
    match parse_batch(&message.body, &meta.caller.tenant) {
        Ok(envelopes) => Ok(vec![Part { traced, trail, first_ordinal: 0, envelopes, unreadable: None }]),
        Err(_) => {
            traced.fail();
            Err(Poison { reason: BODY, trail: Some(trail) })
        }
    }
}

/// The parts of a bundle.
fn bundled<'m>(message: &'m Message, meta: &BatchMeta) -> Result<Vec<Part<'m>>, Poison> {
    let inconsistent = || {
        let ids: Vec<String> = meta.parts.iter().map(|part| part.request_id.to_string()).collect();
        let (span, request_ids) = (message.span(), ids.join(" "));
        span.in_scope(|| {
            limited!(INCONSISTENT[0], error, request_ids, "the parts of a bundle do not fit its body");
        });
        Poison { reason: METADATA, trail: None }
    };
    let texts = bundle::split(&message.body, meta).ok_or_else(inconsistent)?;
    let mut first_ordinal = 0;
    let mut parts = Vec::with_capacity(texts.len());
    for (part, text) in meta.parts.iter().zip(texts) {
        parts.push(read_part(meta, part, text, first_ordinal).map_err(|WrongCount| inconsistent())?);
        first_ordinal += i16::try_from(part.events).map_err(|_| inconsistent())?;
    }
    Ok(parts)
}

fn read_part<'m>(
    meta: &BatchMeta,
    part: &BatchPart,
    text: &'m [u8],
    first_ordinal: i16,
) -> Result<Part<'m>, WrongCount> {
    let (mut traced, trail) = begin(meta, Some(part));
    match parse_events(text, &meta.caller.tenant) {
        Ok(envelopes) if envelopes.len() == usize::from(part.events) => {
            Ok(Part { traced, trail, first_ordinal, envelopes, unreadable: None })
        }
        Ok(_) => Err(WrongCount),
        Err(_) => {
            traced.fail();
            let unreadable = Some(dead_part(meta, part, text, trail));
            Ok(Part { traced, trail, first_ordinal, envelopes: Vec::new(), unreadable })
        }
    }
}

/// A part as the message that its request would have been alone.
fn dead_part(meta: &BatchMeta, part: &BatchPart, text: &[u8], trail: Trail) -> DeadPart {
    let alone = BatchMeta {
        request_id: part.request_id,
        events: part.events,
        traceparent: part.traceparent.clone(),
        parts: Vec::new(),
        ..meta.clone()
    };
    let (header, traceparent) = (alone.to_header(), alone.traceparent);
    DeadPart { trail, meta: header, traceparent, body: bundle::join(&[text]), reason: BODY }
}

/// Begins the span of a request's events.
fn begin(meta: &BatchMeta, part: Option<&BatchPart>) -> (TraceSpan, Trail) {
    let (request_id, events, sent) = match part {
        Some(part) => (part.request_id, part.events, &part.traceparent),
        None => (meta.request_id, meta.events, &meta.traceparent),
    };
    let mut traced = TraceSpan::begin(parent(sent.as_deref()), "batch", SpanKind::Consumer);
    traced.set("connect.request_id", || request_id.to_string());
    traced.set("connect.events", || i64::from(events));
    let trail = Trail { request_id, context: traced.context() };
    (traced, trail)
}

pub(super) fn read_meta(message: &Message) -> Option<BatchMeta> {
    serde_json::from_str(message.meta.as_deref()?).ok()
}
