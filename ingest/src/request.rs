//! The head of a request as it was sent.

use crate::connections::RequestOrigin;
use common::trace::Trail;
use hyper::header::{CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING};
use hyper::{HeaderMap, Method, Uri};

/// Method, target and headers, untouched: signatures cover them byte by byte.
///
/// Taken off the request before the routes see it, so that nothing is copied; the routes find it as an extension.
#[derive(Clone, Debug)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The target.
    pub uri: Uri,
    /// All headers, repeated ones included.
    pub headers: HeaderMap,
    /// What all that the request causes is due to.
    pub trail: Trail,
    /// Who sent it, and on which connection.
    pub origin: RequestOrigin,
}

impl RequestHead {
    /// Path and query exactly as sent (specification: Authentication, `pathWithQuery`).
    pub fn target(&self) -> &str {
        self.uri.path_and_query().map_or("", |target| target.as_str())
    }

    /// The query string as sent, empty when there is none.
    pub fn query(&self) -> &str {
        self.uri.query().unwrap_or_default()
    }

    /// Bytes of body announced, when they are.
    pub fn content_length(&self) -> Option<u64> {
        self.headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
    }

    /// Whether a body is on its way. One for which the caller awaits `100 Continue` isn't.
    pub fn is_sending_body(&self) -> bool {
        let has_body =
            self.headers.contains_key(TRANSFER_ENCODING) || self.content_length().is_some_and(|n| n > 0);
        has_body && !self.headers.contains_key(EXPECT)
    }
}
