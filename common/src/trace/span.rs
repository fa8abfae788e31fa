//! Spans: timed operations for the collector.

use super::context::{SpanId, TraceContext};
use super::export;
use std::borrow::Cow;
use std::time::{Duration, Instant, SystemTime};
use uuid::Uuid;

/// A running span. It ends when it is dropped, also when the measured operation is canceled.
///
/// Without an exporter, or in a trace that is not sampled, it holds only its context.
#[derive(Debug)]
pub struct TraceSpan {
    context: TraceContext,
    record: Option<Box<Record>>,
}

/// The role of a span, as OpenTelemetry defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Serves a request.
    Server,
    /// Makes a request.
    Client,
    /// Handles a message.
    Consumer,
}

/// The value of a span's attribute: ids, names and numbers; no bodies and no personal data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// Exported as a string.
    Text(Cow<'static, str>),
    /// Exported as an integer.
    Number(i64),
}

#[derive(Debug)]
struct Record {
    begun: Instant,
    span: FinishedSpan,
}

#[derive(Clone, Debug)]
pub(super) struct FinishedSpan {
    pub(super) context: TraceContext,
    pub(super) parent: Option<SpanId>,
    pub(super) name: &'static str,
    pub(super) kind: SpanKind,
    pub(super) begun_at: SystemTime,
    pub(super) took: Duration,
    pub(super) attributes: Vec<(&'static str, Attribute)>,
    pub(super) is_failed: bool,
}

impl TraceSpan {
    /// Starts a child span of `parent`; without one, starts a trace, which is sampled if there is an exporter.
    pub fn begin(parent: Option<TraceContext>, name: &'static str, kind: SpanKind) -> Self {
        let context = parent.map_or_else(|| TraceContext::begin(export::is_exporting()), TraceContext::child);
        Self::of_context(context, parent, name, kind)
    }

    /// Starts the span of a request that arrived: a child of the caller's span, or a trace that is named like the request.
    pub fn begin_request(parent: Option<TraceContext>, request_id: Uuid, name: &'static str) -> Self {
        Self::begin_named_like(request_id, parent, name, SpanKind::Server)
    }

    /// Starts a span: a child of `parent`, or a trace that is named like the request.
    pub fn begin_named_like(
        request_id: Uuid, parent: Option<TraceContext>, name: &'static str, kind: SpanKind,
    ) -> Self {
        let begin = || TraceContext::begin_for(request_id, export::is_exporting());
        let context = parent.map_or_else(begin, TraceContext::child);
        Self::of_context(context, parent, name, kind)
    }

    fn of_context(context: TraceContext, parent: Option<TraceContext>, name: &'static str, kind: SpanKind) -> Self {
        let is_recorded = context.is_sampled && export::is_exporting();
        let record = is_recorded.then(|| {
            let parent = parent.map(|parent| parent.span_id);
            let (begun_at, took) = (SystemTime::now(), Duration::ZERO);
            let (attributes, is_failed) = (Vec::new(), false);
            let span = FinishedSpan { context, parent, name, kind, begun_at, took, attributes, is_failed };
            Box::new(Record { begun: Instant::now(), span })
        });
        Self { context, record }
    }

    /// The context to propagate: this span is the parent of the next ones.
    pub const fn context(&self) -> TraceContext {
        self.context
    }

    /// Adds an attribute, which is computed only if the span is exported.
    pub fn set<A: Into<Attribute>>(&mut self, name: &'static str, value: impl FnOnce() -> A) {
        if let Some(record) = &mut self.record {
            record.span.attributes.push((name, value().into()));
        }
    }

    /// Marks the span as failed for a reason that is not the caller's fault.
    pub fn fail(&mut self) {
        if let Some(record) = &mut self.record {
            record.span.is_failed = true;
        }
    }
}

impl Drop for TraceSpan {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            let Record { begun, span } = *record;
            export::enqueue(FinishedSpan { took: begun.elapsed(), ..span });
        }
    }
}

impl From<&'static str> for Attribute {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Attribute {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<i64> for Attribute {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}
