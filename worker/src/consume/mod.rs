//! Consumers: a handler for each queue. They return verdicts; the lane does the broker's part.

mod batch;
mod crm;
mod events;
mod records;

pub(crate) use crm::CrmHandler;
pub(crate) use events::EventsHandler;
pub(crate) use records::RecordsHandler;

use common::event::{EventStatus, InboundType};
use common::metrics::{self, EVENTS};
use common::trace::TraceContext;

/// Shows what is counted of events, before there is one.
pub(crate) fn show_counters() {
    for event_type in InboundType::ALL {
        for status in EventStatus::ALL {
            metrics::show(EVENTS, &[("event_type", event_type.as_str()), ("status", status.as_str())]);
        }
    }
}

/// The place in a trace that a message came with. The release before sent none.
fn parent(traceparent: Option<&str>) -> Option<TraceContext> {
    traceparent.and_then(TraceContext::parse)
}
