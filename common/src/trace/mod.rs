//! Traces: which request something belongs to, in every program it reaches.
//!
//! A [`TraceContext`] comes with a request (W3C Trace Context) or is begun here. Beside the request's id it is the
//! [`Trail`] that travels with all that the request causes: in messages, in the outbox, to receivers of webhooks. Log
//! lines carry it, and [`TraceSpan`]s tell a collector of it when there is one (OTLP).

mod collector;
mod context;
mod export;
mod otlp;
mod span;

pub use context::{SpanId, TraceContext, TraceId};
pub use export::{Exporter, is_exporting, start};
pub use span::{Attribute, SpanKind, TraceSpan};

use uuid::Uuid;

/// The header of HTTP and of AMQP that carries a trace's context.
pub const TRACEPARENT: &str = "traceparent";

/// What something is due to: a request, and the place in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trail {
    /// The request's id: what `X-Request-Id` said.
    pub request_id: Uuid,
    /// Its trace, and the span that is the parent of what follows.
    pub context: TraceContext,
}
