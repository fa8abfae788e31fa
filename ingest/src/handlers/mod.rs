//! The handlers of the routes, and the services that they use.

pub(crate) mod events;
mod read;
pub(crate) mod records;
pub(crate) mod resource;
mod write;

use crate::auth::Auth;
use crate::http::body::BodyReader;
use crate::limits::InFlightLimits;
use crate::limits::read_limit::ReadLimit;
use crate::publish::events::EventPublisher;
use crate::publish::writes::WritePublisher;
use crate::record_reads::RecordReader;
use crate::refused::KeyRequestRecorder;

/// What all handlers share.
#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) bodies: BodyReader,
    /// Bounds the requests under way.
    pub(crate) limits: InFlightLimits,
    pub(crate) auth: Auth,
    /// Why requests were refused, for the owners of their keys.
    pub(crate) refused: KeyRequestRecorder,
    pub(crate) events: EventPublisher,
    pub(crate) writes: WritePublisher,
    pub(crate) reads: RecordReader,
    /// Reads per second of each key.
    pub(crate) read_limit: ReadLimit,
}
