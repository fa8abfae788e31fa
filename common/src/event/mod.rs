//! Events: the envelope, the inbound and outbound types, and the batch result.

mod envelope;
mod fault;
mod json;
mod kind;
mod result;

pub use envelope::{
    Actor, BATCH_MAX, Batch, Envelope, RESERVED_PREFIX, parse_batch, parse_events, read_batch,
};
pub use fault::{FAULTS_SHOWN, Fault, Faults};
pub use json::{MAX_DEPTH, check_json};
pub use kind::{InboundType, OutboundType};
pub use result::{BatchResult, EventResult, EventStatus, TravellerDiscovery};

#[cfg(test)]
mod properties;
