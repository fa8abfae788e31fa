//! Events: the envelope, the inbound and outbound types, and the batch result.

mod envelope;
mod fault;
mod fields;
mod json;
mod kind;
mod result;

pub use envelope::{Actor, BATCH_MAX, Envelope, RESERVED_PREFIX, parse_batch, read_batch};
pub use fault::{Fault, Faults};
pub use fields::Fields;
pub use json::MAX_DEPTH;
pub(crate) use json::check_json;
pub use kind::{InboundType, OutboundType, TEST_EVENT_TYPE};
pub use result::{BatchResult, EventResult, EventStatus, TravellerDiscovery, WarningDetail};

#[cfg(test)]
mod properties;
