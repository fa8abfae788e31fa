//! Traces: which request a piece of work belongs to, across programs.
//!
//! A [`TraceContext`] comes with a request (W3C Trace Context) or is started here. With the request's id it forms the
//! [`RequestContext`], which is propagated with everything that the request causes: messages, outbound events, webhooks.
//! Log lines contain it, and [`TraceSpan`]s are exported to a collector if one is configured (OTLP).

mod context;
mod export;
mod span;

pub use context::{SpanId, TraceContext, TraceId};
pub use export::{Exporter, start};
pub use span::{Attribute, SpanKind, TraceSpan};

use uuid::Uuid;

/// The header of HTTP and of AMQP that carries a trace's context.
pub const TRACEPARENT: &str = "traceparent";

/// The request that caused a piece of work, and the trace context to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestContext {
    /// The request's id, as `X-Request-Id` shows it.
    pub request_id: Uuid,
    /// Its trace, and the parent of the next spans.
    pub context: TraceContext,
}

impl RequestContext {
    /// The id of the trace if it is not that of the request, as in a trace that ingest has begun. So that a trace can be searched.
    pub fn foreign_trace_id(self) -> Option<Uuid> {
        Some(self.context.trace_id.as_uuid()).filter(|trace| *trace != self.request_id)
    }
}
