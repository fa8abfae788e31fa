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
use common::trace::{TraceContext, Trail};
use std::fmt::{self, Display, Formatter};
use tracing::Span;

/// Shows what is counted of events, before there is one.
pub(crate) fn show_counters() {
    for event_type in InboundType::ALL {
        for status in EventStatus::ALL {
            metrics::show(EVENTS, &[("event_type", event_type.as_str()), ("status", status.as_str())]);
        }
    }
}

/// The place in a trace that a message came with. Absent from messages of the previous release.
fn parent(traceparent: Option<&str>) -> Option<TraceContext> {
    traceparent.and_then(TraceContext::parse)
}

/// What the log lines of a unit of several requests name: all of them.
fn unit_span(trails: &[Trail]) -> Span {
    let request_ids = Listed(trails, |trail: &Trail| trail.request_id);
    let trace_ids = Listed(trails, |trail: &Trail| trail.context.trace_id);
    tracing::error_span!("unit", %request_ids, %trace_ids)
}

/// Something of each request, with spaces between.
struct Listed<'t, F>(&'t [Trail], F);

impl<T: Display, F: Fn(&Trail) -> T> Display for Listed<'_, F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, trail) in self.0.iter().enumerate() {
            let space = if at == 0 { "" } else { " " };
            write!(f, "{space}{}", (self.1)(trail))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn the_lines_of_a_unit_name_every_request_in_it() {
        let trail = |id| Trail { request_id: Uuid::from_u128(id), context: TraceContext::begin(false) };
        let trails = [trail(1), trail(2)];
        let requests = Listed(&trails, |trail: &Trail| trail.request_id).to_string();
        assert_eq!(requests, format!("{} {}", Uuid::from_u128(1), Uuid::from_u128(2)));
        let [one, two] = trails.map(|trail| trail.context.trace_id);
        let traces = Listed(&trails, |trail: &Trail| trail.context.trace_id).to_string();
        assert_eq!(traces, format!("{one} {two}"));
    }
}
