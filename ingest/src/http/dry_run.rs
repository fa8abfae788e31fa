//! `Connect-Dry-Run` (D46): the request is checked and decided like any other one, and nothing is written.

use crate::http::RequestHead;
use crate::refusal::Refusal;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

const HEADER: HeaderName = HeaderName::from_static("connect-dry-run");

/// Whether the request is a dry run. 400 when the header is repeated, or has another value than `true`.
pub(super) fn is_dry_run(headers: &HeaderMap) -> Result<bool, Refusal> {
    let mut values = headers.get_all(HEADER).iter();
    let fault = match (values.next(), values.next()) {
        (None, _) => return Ok(false),
        (Some(value), None) if value == "true" => return Ok(true),
        (Some(_), None) => "must be true, in lower case",
        (Some(_), Some(_)) => "must be given once",
    };
    Err(Refusal::InvalidRequest(format!("Connect-Dry-Run: {fault}")))
}

/// Names a dry run in its response, so that its caller knows that the header had its effect.
pub(super) fn mark(head: &RequestHead, response: &mut HeaderMap) {
    if head.is_dry_write() {
        response.insert(HEADER, HeaderValue::from_static("true"));
    }
}
