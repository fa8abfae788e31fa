//! The handlers of the routes, and the services that they use.

pub(crate) mod events;
pub(crate) mod feed;
mod read;
pub(crate) mod records;
pub(crate) mod resource;
mod write;

use crate::auth::Auth;
use crate::http::RequestHead;
use crate::limits::InFlightLimits;
use crate::limits::read_limit::ReadLimit;
use crate::publish::events::EventPublisher;
use crate::publish::writes::WritePublisher;
use crate::record_reads::RecordReader;
use crate::refusal::Refusal;
use crate::refused::KeyRequestRecorder;
use bytes::Bytes;
use common::http::{BodyReader, BodyStream};
use feed::FeedWaits;

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
    /// Requests that wait for a delivery.
    pub(crate) feed_waits: FeedWaits,
}

impl Services {
    /// Reads the body of a request: before authentication, because the signature covers it, and because an unknown key must take as
    /// long as a wrong signature.
    ///
    /// 413 when it is too large, 408 when it does not arrive in time, 400 when the connection or its encoding breaks, 503 `overloaded`
    /// when the memory for bodies, or the peer's share of it, is used up.
    async fn read_body(&self, head: &RequestHead, body: impl BodyStream) -> Result<Bytes, Refusal> {
        let read = self.bodies.read(head.body_source(), body, || head.origin.begin_body());
        read.await.map_err(Refusal::from)
    }
}
