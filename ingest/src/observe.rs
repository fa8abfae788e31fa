//! What the operator sees of each request: a count, a duration, a line in the log, a span. No bodies, no headers.
//!
//! Each request gets an id here, which its answer returns, and its place in a trace: its caller's, or a new one where
//! that sent none or nothing that could be read.

use crate::body::discard;
use crate::connections::{ConnectionPlace, RequestOrigin};
use crate::error::Refusal;
use crate::framing::FramingFault;
use crate::http_metrics::RequestLabels;
use crate::request::RequestHead;
use crate::route::Route;
use crate::strict::Violation;
use common::clock;
use common::limited;
use common::log_limit::LogLimit;
use common::trace::{SpanKind, TRACEPARENT, TraceContext, TraceId, TraceSpan, Trail};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderName, HeaderValue};
use hyper::service::Service;
use hyper::{HeaderMap, Request, StatusCode};
use std::convert::Infallible;
use std::mem;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;
use tracing::Instrument;
use uuid::fmt::Hyphenated;
use uuid::{Builder, Uuid};
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
    let labels = RequestLabels::of(request.method());
    let mut traced = TraceSpan::begin(parent(request.headers()), "request", SpanKind::Server);
    let trail = Trail { request_id: new_id(), context: traced.context() };
    let (mut id, mut trace_id) = ([0; Hyphenated::LENGTH], [0; TraceId::LENGTH]);
    let id = &*trail.request_id.hyphenated().encode_lower(&mut id);
    let trace_id = trail.context.trace_id.encode(&mut trace_id);
    // There at every level of the log: each line of the request names it.
    let span = tracing::error_span!("request", request_id = %id, %trace_id);
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
    response.headers_mut().insert(REQUEST_ID, HeaderValue::from_str(id).expect("digits and hyphens"));
    let labels = labels.at(response.extensions().get::<RouteLabel>().map(|label| label.0));
    span.in_scope(|| note(labels, response.status(), begun));
    tell(&mut traced, id, labels, response.status());
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

/// A UUIDv7 whose random part comes from this thread's generator: that of `Uuid::now_v7` costs a system call.
fn new_id() -> Uuid {
    let millis = u64::try_from(clock::now().timestamp_millis()).unwrap_or_default();
    Builder::from_unix_timestamp_millis(millis, &rand::random()).into_uuid()
}

/// What the collector is told of a request.
fn tell(traced: &mut TraceSpan, id: &str, labels: RequestLabels, status: StatusCode) {
    traced.set("connect.request_id", || id.to_owned());
    traced.set("http.route", || labels.route());
    traced.set("http.request.method", || labels.method());
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

fn note(labels: RequestLabels, status: StatusCode, begun: Instant) {
    let took = begun.elapsed();
    labels.count(status, took);
    let (route, method) = (labels.route(), labels.method());
    let (status, micros) = (status.as_u16(), took.as_micros() as u64);
    if status < 500 {
        tracing::debug!(route, method, status, micros, "answered");
    } else {
        limited!(FAILED[usize::from(status)], warn, route, method, status, micros, "request failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_requests_are_version_7_and_differ() {
        let ids = [new_id(), new_id()];
        assert!(ids.iter().all(|id| id.get_version_num() == 7 && id.get_variant() == uuid::Variant::RFC4122));
        assert_ne!(ids[0], ids[1]);
    }
}
