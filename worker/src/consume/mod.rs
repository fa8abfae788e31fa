//! The handlers of the worker's queues. A handler returns an outcome for each request; `common::broker` replies, acknowledges and
//! dead-letters.

mod actions;
mod crm;
mod events;
mod events_message;
mod records;

pub(crate) use actions::ActionLane;
pub(crate) use crm::{ActionIntake, WaitingActions};
pub(crate) use events::EventsHandler;
pub(crate) use records::RecordsHandler;

use common::event::{EventStatus, InboundType};
use common::metrics::{self, EVENTS};
use common::outage::Outage;
use common::trace::{RequestContext, TraceContext};
use tracing::Span;

/// Registers the event counters at zero, so that they are exported before the first event.
pub(crate) fn register_counters() {
    [&events::OUTAGE, &records::OUTAGE, &crm::OUTAGE].into_iter().for_each(Outage::register);
    for event_type in InboundType::ALL {
        for status in EventStatus::ALL {
            metrics::register_counter(EVENTS, &[("event_type", event_type.as_str()), ("status", status.as_str())]);
        }
    }
}

/// The trace context of a message, if it has a valid one.
fn trace_parent(traceparent: Option<&str>) -> Option<TraceContext> {
    traceparent.and_then(TraceContext::parse)
}

/// The log span of a unit of several requests. It contains the request id and trace id of each request.
fn unit_span(request_contexts: &[RequestContext]) -> Span {
    let of_each =
        |id: fn(&RequestContext) -> String| -> String { request_contexts.iter().map(id).collect::<Vec<_>>().join(" ") };
    let request_ids = of_each(|request_context| request_context.request_id.to_string());
    let trace_ids = of_each(|request_context| request_context.context.trace_id.to_string());
    tracing::error_span!("unit", %request_ids, %trace_ids)
}
