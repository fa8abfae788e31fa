//! HTTP requests on their way to the handlers: head, conditional headers, `Idempotency-Key`, query, violations of HTTP,
//! and observability.

pub(crate) mod conditions;
mod metrics;
pub(crate) mod observe;
pub(crate) mod query;
pub(crate) mod route;
mod violation;

use crate::refusal::Refusal;
use common::caller::Caller;
use common::http::{BodySource, RequestOrigin};
use common::trace::RequestContext;
use hyper::{HeaderMap, Method, Uri};
use std::sync::{Arc, OnceLock};

/// Method, target and headers, untouched: signatures cover them byte by byte.
///
/// Taken off the request before the routes see it, so that nothing is copied; the routes find it as an extension.
#[derive(Clone, Debug)]
pub(crate) struct RequestHead {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    /// All headers, repeated ones included.
    pub(crate) headers: HeaderMap,
    /// Whether it is a dry run, or 400.
    pub(crate) dry_run: Result<bool, Refusal>,
    /// The request's id and trace context, which messages and log lines carry on.
    pub(crate) request_context: RequestContext,
    /// The peer and its connection.
    pub(crate) origin: RequestOrigin,
    /// The caller, once its signature is verified.
    pub(crate) caller: OnceLock<Arc<Caller>>,
}

impl RequestHead {
    /// Path and query exactly as sent (specification: Authentication, `pathWithQuery`).
    pub(crate) fn target(&self) -> &str {
        self.uri.path_and_query().map_or("", |target| target.as_str())
    }

    /// The query string as sent, empty when there is none.
    pub(crate) fn query(&self) -> &str {
        self.uri.query().unwrap_or_default()
    }

    /// Whether the request would write, and is a dry run.
    pub(crate) fn is_dry_write(&self) -> bool {
        [Method::POST, Method::PATCH].contains(&self.method) && self.dry_run == Ok(true)
    }

    /// Who sends the body, and what the headers say of it.
    pub(crate) fn body_source(&self) -> BodySource {
        BodySource::new(self.origin.peer(), &self.headers)
    }
}
