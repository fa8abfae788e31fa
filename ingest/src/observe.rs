//! What the operator sees of each request: a count, a duration, a line in the log. No bodies, no headers.

use crate::error::Refusal;
use crate::request::RequestHead;
use crate::route::Route;
use common::metrics::{HTTP_DURATION, HTTP_REQUESTS};
use futures_util::FutureExt;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper::{Method, Request, StatusCode};
use std::convert::Infallible;
use std::mem;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;
use warp::Reply;
use warp::reply::Response;

/// The route that answered, as an extension of its response.
#[derive(Clone, Copy, Debug)]
pub struct RouteLabel(pub Route);

/// Has `routes` answer a request, and notes how that went.
pub async fn observed<S>(routes: &S, request: Request<Incoming>) -> Result<Response, Infallible>
where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible>,
{
    let begun = Instant::now();
    let method = label(request.method());
    // A panic costs its request, not the others on its connection.
    let answer = AssertUnwindSafe(routes.call(with_head(request))).catch_unwind().await;
    let response = answer.unwrap_or_else(|_| Ok(Refusal::Internal.into_response()))?;
    let route = response.extensions().get::<RouteLabel>().map_or("unknown", |label| label.0.pattern());
    note(route, method, response.status(), begun);
    Ok(response)
}

/// Moves the headers into the [`RequestHead`] that the routes are given.
fn with_head(mut request: Request<Incoming>) -> Request<Incoming> {
    let head = RequestHead {
        method: request.method().clone(),
        uri: request.uri().clone(),
        headers: mem::take(request.headers_mut()),
    };
    request.extensions_mut().insert(Arc::new(head));
    request
}

fn note(route: &'static str, method: &'static str, status: StatusCode, begun: Instant) {
    let took = begun.elapsed();
    let labels =
        [("route", route.to_owned()), ("method", method.to_owned()), ("status", status.as_str().to_owned())];
    metrics::counter!(HTTP_REQUESTS, &labels).increment(1);
    metrics::histogram!(HTTP_DURATION, "route" => route).record(took);
    let (status, micros) = (status.as_u16(), took.as_micros() as u64);
    if status >= 500 {
        tracing::warn!(route, method, status, micros, "refused");
    } else {
        tracing::debug!(route, method, status, micros, "answered");
    }
}

/// A fixed set, because callers can make methods up.
fn label(method: &Method) -> &'static str {
    const KNOWN: [Method; 7] = [
        Method::GET,
        Method::POST,
        Method::PATCH,
        Method::PUT,
        Method::DELETE,
        Method::HEAD,
        Method::OPTIONS,
    ];
    const NAMES: [&str; 7] = ["GET", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS"];
    KNOWN.iter().position(|known| known == method).map_or("other", |i| NAMES[i])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_methods_share_a_label() {
        assert_eq!(label(&Method::POST), "POST");
        assert_eq!(label(&Method::from_bytes(b"BREW").unwrap()), "other");
        assert_eq!(label(&Method::TRACE), "other");
    }
}
