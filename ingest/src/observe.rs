//! What the operator sees of each request: a count, a duration, a line in the log, a span. No bodies, no headers.
//!
//! Each request gets an id here, which its answer returns, and its place in a trace: its caller's, or a new one where
//! that sent none or nothing that could be read.

use crate::body::discard;
use crate::connections::{ConnectionPlace, RequestOrigin};
use crate::error::Refusal;
use crate::framing::FramingFault;
use crate::request::RequestHead;
use crate::route::Route;
use crate::strict::Violation;
use common::limited;
use common::log_limit::LogLimit;
use common::metrics::{HTTP_DURATION, HTTP_REQUESTS};
use common::trace::{SpanKind, TRACEPARENT, TraceContext, TraceSpan, Trail};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderName, HeaderValue};
use hyper::service::Service;
use hyper::{HeaderMap, Method, Request, StatusCode};
use std::convert::Infallible;
use std::mem;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;
use tracing::Instrument;
use uuid::Uuid;
use uuid::fmt::Hyphenated;
use warp::Reply;
use warp::reply::Response;

/// The answer's header that names the request. A caller's own is neither believed nor logged.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Which failed requests are logged as warnings: one a second for each status. The others are lines at `debug`.
static FAILED: LogLimit<8> = LogLimit::new();

/// The route that answered, as an extension of its response.
#[derive(Clone, Copy, Debug)]
pub struct RouteLabel(pub Route);

/// Has `routes` answer a request that HTTP allows, if its peer has a share left at `place`, and notes how that went.
/// `framing` is what only the bytes that arrived tell: of `Content-Length` beside `Transfer-Encoding` hyper removes one.
pub(crate) async fn observed<S>(
    routes: &S,
    request: Request<Incoming>,
    framing: Option<FramingFault>,
    place: &ConnectionPlace,
) -> Result<Response, Infallible>
where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible>,
{
    let begun = Instant::now();
    let method = label(request.method());
    let mut traced = TraceSpan::begin(parent(request.headers()), "request", SpanKind::Server);
    let trail = Trail { request_id: Uuid::now_v7(), context: traced.context() };
    let Trail { request_id, context: TraceContext { trace_id, .. } } = trail;
    // There at every level of the log: each line of the request names it.
    let span = tracing::error_span!("request", %request_id, %trace_id);
    let violation = Violation::of(&request, framing);
    let origin = place.origin(request.headers());
    let (request, head) = with_head(request, trail, origin);
    let answering = async {
        if let Some(violation) = violation {
            return Ok(refuse(violation, &head, request));
        }
        match place.take_share(&head.origin) {
            Ok(_share) => routes.call(request).await,
            Err(bound) => {
                discard(&head, request.into_body().into_data_stream());
                Ok(bound.refuse().into_response())
            }
        }
    };
    // A panic costs its request, not the others on its connection.
    let answering = AssertUnwindSafe(answering.instrument(span.clone()));
    let answer = answering.catch_unwind().await;
    let mut response = answer.unwrap_or_else(|_| Ok(Refusal::Internal.into_response()))?;
    response.headers_mut().insert(REQUEST_ID, id_header(request_id));
    let route = response.extensions().get::<RouteLabel>().map_or("unknown", |label| label.0.pattern());
    span.in_scope(|| note(route, method, response.status(), begun));
    tell(&mut traced, request_id, (route, method), response.status());
    Ok(response)
}

/// The response to a request that HTTP forbids.
fn refuse(violation: Violation, head: &RequestHead, request: Request<Incoming>) -> Response {
    discard(head, request.into_body().into_data_stream());
    let mut response = violation.refusal().into_response();
    if violation.closes_connection() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The caller's place in its trace. Of several there is no telling which.
fn parent(headers: &HeaderMap) -> Option<TraceContext> {
    let mut sent = headers.get_all(TRACEPARENT).iter();
    let one = sent.next().filter(|_| sent.next().is_none())?;
    TraceContext::parse(one.to_str().ok()?)
}

fn id_header(id: Uuid) -> HeaderValue {
    let mut text = [0; Hyphenated::LENGTH];
    let text = id.hyphenated().encode_lower(&mut text);
    HeaderValue::from_str(text).expect("digits and hyphens")
}

/// What the collector is told of a request.
fn tell(traced: &mut TraceSpan, id: Uuid, (route, method): (&'static str, &'static str), status: StatusCode) {
    traced.set("connect.request_id", || id.to_string());
    traced.set("http.route", || route);
    traced.set("http.request.method", || method);
    traced.set("http.response.status_code", || i64::from(status.as_u16()));
    if status.is_server_error() {
        traced.fail();
    }
}

/// Moves the headers into the [`RequestHead`] that the routes are given.
fn with_head(
    mut request: Request<Incoming>,
    trail: Trail,
    origin: RequestOrigin,
) -> (Request<Incoming>, Arc<RequestHead>) {
    let head = Arc::new(RequestHead {
        method: request.method().clone(),
        uri: request.uri().clone(),
        headers: mem::take(request.headers_mut()),
        trail,
        origin,
    });
    request.extensions_mut().insert(Arc::clone(&head));
    (request, head)
}

fn note(route: &'static str, method: &'static str, status: StatusCode, begun: Instant) {
    let took = begun.elapsed();
    let labels =
        [("route", route.to_owned()), ("method", method.to_owned()), ("status", status.as_str().to_owned())];
    metrics::counter!(HTTP_REQUESTS, &labels).increment(1);
    metrics::histogram!(HTTP_DURATION, "route" => route).record(took);
    let (status, micros) = (status.as_u16(), took.as_micros() as u64);
    if status < 500 {
        tracing::debug!(route, method, status, micros, "answered");
    } else {
        limited!(FAILED[usize::from(status)], warn, route, method, status, micros, "request failed");
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
