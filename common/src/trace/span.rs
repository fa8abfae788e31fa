//! Something that takes time, for a collector.

use super::context::{SpanId, TraceContext};
use super::export;
use std::borrow::Cow;
use std::time::{Duration, Instant, SystemTime};

/// A span under way. It ends with its value, also when what it measures is cut short.
///
/// Without an exporter, or when the trace isn't sampled, it is its context and nothing more.
#[derive(Debug)]
pub struct TraceSpan {
    context: TraceContext,
    record: Option<Box<Record>>,
}

/// Which end of an exchange a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Answers a request.
    Server,
    /// Makes a request.
    Client,
    /// Works on a message.
    Consumer,
}

/// A fact about a span. Ids, names and numbers; no bodies, no person's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// A text.
    Text(Cow<'static, str>),
    /// A number.
    Number(i64),
}

#[derive(Debug)]
struct Record {
    begun: Instant,
    span: FinishedSpan,
}

/// A span as it is exported.
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
    /// Begins a span below `parent`; without one it begins a trace, which is sampled when there is an exporter.
    pub fn begin(parent: Option<TraceContext>, name: &'static str, kind: SpanKind) -> Self {
        let context = parent.map_or_else(|| TraceContext::begin(export::is_exporting()), TraceContext::child);
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

    /// The parent of what it causes.
    pub const fn context(&self) -> TraceContext {
        self.context
    }

    /// Adds a fact, which is only asked for when it is exported.
    pub fn set<A: Into<Attribute>>(&mut self, name: &'static str, value: impl FnOnce() -> A) {
        if let Some(record) = &mut self.record {
            record.span.attributes.push((name, value().into()));
        }
    }

    /// Says that it failed, and not by its caller's fault.
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
            export::hand_in(FinishedSpan { took: begun.elapsed(), ..span });
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
