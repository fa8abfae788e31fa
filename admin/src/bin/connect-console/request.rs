//! A request, and its form.

use crate::database::DatabaseTime;
use crate::failure::Failure;
use crate::fields::Fields;
use hyper::header::CONTENT_TYPE;
use hyper::{HeaderMap, Method};
use std::net::IpAddr;
use uuid::Uuid;

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
    /// Until when it may hold a connection to the database.
    pub(crate) database_time: DatabaseTime,
}

/// Parses the body of a form.
pub(crate) fn parse_form(headers: &HeaderMap, body: &[u8]) -> Result<Fields, Failure> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if content_type.split(';').next() != Some("application/x-www-form-urlencoded") {
        return Err(Failure::BadRequest("the body must be a form"));
    }
    Fields::parse(body).ok_or(Failure::BadRequest("the form has too many fields, or a NUL character"))
}
