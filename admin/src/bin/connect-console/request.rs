//! A request, and its body.

use crate::failure::Failure;
use crate::fields::Fields;
use bytes::{Buf, BufMut as _};
use common::unread_body;
use futures_util::{Stream, StreamExt as _};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE};
use hyper::{HeaderMap, Method};
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::timeout;
use uuid::Uuid;

/// Largest body of a form.
pub(crate) const BODY_MAX: usize = 1024 * 1024;
/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A request without its body.
#[derive(Debug)]
pub(crate) struct Request {
    /// Names the request in the log, in `X-Request-Id` and on error pages.
    pub(crate) id: Uuid,
    /// Where its connection came from.
    pub(crate) peer: IpAddr,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Fields,
    pub(crate) headers: HeaderMap,
}

/// Reads a body of at most [`BODY_MAX`] bytes. The rest of a larger one is discarded, so that its sender can read the response.
pub(crate) async fn read_body<S, B, E>(headers: &HeaderMap, mut body: S) -> Result<Vec<u8>, Failure>
where
    S: Stream<Item = Result<B, E>> + Send + Unpin + 'static,
    B: Buf + Send + 'static,
    E: Send + 'static,
{
    let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let read = if announced.is_some_and(|length| length > BODY_MAX as u64) {
        Err(Failure::TooLarge)
    } else {
        let late = Err(Failure::BadRequest("the body did not arrive in time"));
        timeout(BODY_TIMEOUT, collect(&mut body)).await.unwrap_or(late)
    };
    if matches!(read, Err(Failure::TooLarge)) {
        unread_body::discard(body);
    }
    read
}

async fn collect<S, B, E>(body: &mut S) -> Result<Vec<u8>, Failure>
where
    S: Stream<Item = Result<B, E>> + Unpin,
    B: Buf,
{
    let mut bytes = Vec::new();
    while let Some(part) = body.next().await {
        let part = part.map_err(|_| Failure::BadRequest("the body did not arrive completely"))?;
        if bytes.len() + part.remaining() > BODY_MAX {
            return Err(Failure::TooLarge);
        }
        bytes.put(part);
    }
    Ok(bytes)
}

/// Parses the body of a form.
pub(crate) fn parse_form(headers: &HeaderMap, body: &[u8]) -> Result<Fields, Failure> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if content_type.split(';').next() != Some("application/x-www-form-urlencoded") {
        return Err(Failure::BadRequest("the body must be a form"));
    }
    Fields::parse(body).ok_or(Failure::BadRequest("the form has too many fields, or a NUL character"))
}
