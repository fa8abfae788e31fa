//! What the routes do, and what they do it with.

pub mod events;
mod read;
pub mod records;
pub mod resource;
mod write;

use crate::auth::Auth;
use crate::body::BodyReader;
use crate::limits::Limits;
use crate::read_limit::ReadLimit;
use crate::reads::Reads;
use crate::submit::Events;
use crate::writes::Writes;

/// What all handlers share.
#[derive(Debug)]
pub struct Services {
    /// Takes in bodies.
    pub bodies: BodyReader,
    /// Bounds what is under way.
    pub limits: Limits,
    /// Checks credentials.
    pub auth: Auth,
    /// Takes batches of events.
    pub events: Events,
    /// Takes records writes.
    pub writes: Writes,
    /// Answers records reads.
    pub reads: Reads,
    /// Bounds them.
    pub read_limit: ReadLimit,
}
