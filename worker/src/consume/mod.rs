//! Consumers: a handler for each queue. They return verdicts; the lane does the broker's part.

mod crm;
mod events;
mod records;

pub use crm::CrmHandler;
pub use events::EventsHandler;
pub use records::RecordsHandler;

use common::trace::TraceContext;

/// The place in a trace that a message came with. The release before sent none.
fn parent(traceparent: Option<&str>) -> Option<TraceContext> {
    traceparent.and_then(TraceContext::parse)
}
