//! The handlers of the worker's queues. A handler returns an outcome for each message; `common::broker` replies, acknowledges and
//! dead-letters.

mod crm;
mod events;
mod events_message;
mod records;

pub(crate) use crm::CrmHandler;
pub(crate) use events::EventsHandler;
pub(crate) use records::RecordsHandler;

use common::event::{EventStatus, InboundType};
use common::metrics::{self, EVENTS};
use common::outage::Outage;
use common::trace::{RequestContext, TraceContext};
use std::fmt::{self, Display, Formatter};
use tracing::Span;

/// Registers the event counters at zero, so that they are exported before the first event.
pub(crate) fn register_counters() {
    [&events::OUTAGE, &records::OUTAGE, &crm::OUTAGE].into_iter().for_each(Outage::register);
    for event_type in InboundType::ALL {
        for status in EventStatus::ALL {
            metrics::register_counter(
                EVENTS,
                &[("event_type", event_type.as_str()), ("status", status.as_str())],
            );
        }
    }
}

/// The trace context of a message, if it has a valid one.
fn trace_parent(traceparent: Option<&str>) -> Option<TraceContext> {
    traceparent.and_then(TraceContext::parse)
}

/// The log span of a unit of several requests. It contains the request id and trace id of each request.
fn unit_span(request_contexts: &[RequestContext]) -> Span {
    let request_ids =
        SpaceSeparated(request_contexts, |request_context: &RequestContext| request_context.request_id);
    let trace_ids =
        SpaceSeparated(request_contexts, |request_context: &RequestContext| request_context.context.trace_id);
    tracing::error_span!("unit", %request_ids, %trace_ids)
}

/// One value of each request, separated by spaces.
struct SpaceSeparated<'t, F>(&'t [RequestContext], F);

impl<T: Display, F: Fn(&RequestContext) -> T> Display for SpaceSeparated<'_, F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, request_context) in self.0.iter().enumerate() {
            let space = if at == 0 { "" } else { " " };
            write!(f, "{space}{}", (self.1)(request_context))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn log_span_of_a_unit_names_all_its_requests() {
        let request_context =
            |id| RequestContext { request_id: Uuid::from_u128(id), context: TraceContext::begin(false) };
        let request_contexts = [request_context(1), request_context(2)];
        let requests =
            SpaceSeparated(&request_contexts, |request_context: &RequestContext| request_context.request_id)
                .to_string();
        assert_eq!(requests, format!("{} {}", Uuid::from_u128(1), Uuid::from_u128(2)));
        let [one, two] = request_contexts.map(|request_context| request_context.context.trace_id);
        let traces = SpaceSeparated(&request_contexts, |request_context: &RequestContext| {
            request_context.context.trace_id
        })
        .to_string();
        assert_eq!(traces, format!("{one} {two}"));
    }
}
