//! What the routes do, a file for each, and what they do it with.

pub mod events;

use crate::auth::Auth;
use crate::body::BodyReader;
use crate::limits::Limits;
use crate::submit::Events;

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
}
