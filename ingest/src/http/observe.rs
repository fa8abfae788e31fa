//! Observability of each request: metrics, a log line and a span. Bodies and headers are never recorded.
//!
//! Each request gets an id, which its response returns, and a trace: the caller's, or a new one when the caller sent no valid
//! `traceparent`. Whether it is a dry run is read here, and said in the response.

use crate::http::RequestHead;
use crate::http::metrics::RequestLabels;
use crate::http::route::Route;
use crate::http::violation::HttpViolation;
use crate::refusal::{FailureCode, OverloadReason, Refusal};
use common::http::{RequestOrigin, discard};
use common::log_limit::LogLimit;
use common::trace::{RequestContext, TRACEPARENT, TraceContext, TraceId, TraceSpan};
use common::{clock, limited};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderName, HeaderValue};
use hyper::service::Service;
use hyper::{HeaderMap, Request, StatusCode};
use std::convert::Infallible;
use std::mem;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tracing::Instrument;
use uuid::fmt::Hyphenated;
use uuid::{Builder, Uuid};
use warp::Reply;
use warp::reply::Response;

/// The response header with the request's id. A caller's own is ignored.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A request with it is checked and decided like any other one, and nothing is written (D46). Its response has it as well,
/// so that the caller knows that it had its effect.
const DRY_RUN: HeaderName = HeaderName::from_static("connect-dry-run");

/// Limits the warnings about failed requests to one a second for each status. The others are logged at `debug`. Statuses share the
/// limits modulo 8: 500 and 503 have one each.
static FAILED: LogLimit<8> = LogLimit::new();

/// The route that handled a request, as an extension of its response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouteLabel(pub(crate) Route);

/// Passes a valid request to `routes`, unless the share of its peer is used up, and records the outcome.
pub(crate) async fn observe_request<S>(
    routes: &S, request: Request<Incoming>, origin: RequestOrigin,
) -> Result<Response, Infallible>
where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible>,
{
    let begun = Instant::now();
    let labels = RequestLabels::of(request.method());
    let request_id = new_id();
    let mut traced = TraceSpan::begin_request(parent(request.headers()), request_id, "request");
    let request_context = RequestContext { request_id, context: traced.context() };
    let (mut id, mut trace_id) = ([0; Hyphenated::LENGTH], [0; TraceId::LENGTH]);
    let id = &*request_context.request_id.hyphenated().encode_lower(&mut id);
    let trace_id = request_context.context.trace_id.encode(&mut trace_id);
    // At the level of errors, so that every log line of the request has it at any log level.
    let span = tracing::error_span!("request", request_id = %id, %trace_id);
    let violation = HttpViolation::of(&request);
    let (request, head) = take_head(request, request_context, origin);
    let handling = async {
        if let Some(violation) = violation {
            return Ok(refuse(violation, &head, request));
        }
        match head.origin.take_share() {
            Ok(_share) => routes.call(request).await,
            Err(_) => {
                discard(head.body_source(), request.into_body().into_data_stream());
                Ok(OverloadReason::Connections.refuse().into_response())
            }
        }
    };
    // A panic fails its request, but not the others on its connection.
    let handling = AssertUnwindSafe(handling.instrument(span.clone()));
    let handled = handling.catch_unwind().await;
    let mut response = handled.unwrap_or_else(|_| Ok(Refusal::Internal.into_response()))?;
    response.headers_mut().insert(REQUEST_ID, HeaderValue::from_str(id).expect("digits and hyphens"));
    if head.is_dry_write() {
        response.headers_mut().insert(DRY_RUN, HeaderValue::from_static("true"));
    }
    let labels = labels.at(response.extensions().get::<RouteLabel>().map(|label| label.0));
    span.in_scope(|| record_response(labels, &head, &response, begun));
    set_span_attributes(&mut traced, id, labels, response.status());
    Ok(response)
}

/// The response to a request that violates HTTP.
fn refuse(violation: HttpViolation, head: &RequestHead, request: Request<Incoming>) -> Response {
    discard(head.body_source(), request.into_body().into_data_stream());
    let mut response = violation.refusal().into_response();
    if violation.closes_connection() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The caller's trace context. Ignored when the header is repeated.
fn parent(headers: &HeaderMap) -> Option<TraceContext> {
    let mut sent = headers.get_all(TRACEPARENT).iter();
    let one = sent.next().filter(|_| sent.next().is_none())?;
    TraceContext::parse(one.to_str().ok()?)
}

/// Whether the request is a dry run. 400 when the header is repeated, or has another value than `true`.
fn is_dry_run(headers: &HeaderMap) -> Result<bool, Refusal> {
    let mut values = headers.get_all(DRY_RUN).iter();
    let fault = match (values.next(), values.next()) {
        (None, _) => return Ok(false),
        (Some(value), None) if value == "true" => return Ok(true),
        (Some(_), None) => "must be true, in lower case",
        (Some(_), Some(_)) => "must be given once",
    };
    Err(Refusal::InvalidRequest(format!("Connect-Dry-Run: {fault}")))
}

/// A UUIDv7 whose random part comes from this thread's generator: that of `Uuid::now_v7` costs a system call.
fn new_id() -> Uuid {
    let millis = u64::try_from(clock::now().timestamp_millis()).unwrap_or_default();
    Builder::from_unix_timestamp_millis(millis, &rand::random()).into_uuid()
}

fn set_span_attributes(traced: &mut TraceSpan, id: &str, labels: RequestLabels, status: StatusCode) {
    traced.set("connect.request_id", || id.to_owned());
    traced.set("http.route", || labels.route());
    traced.set("http.request.method", || labels.method());
    traced.set("http.response.status_code", || i64::from(status.as_u16()));
    if status.is_server_error() {
        traced.fail();
    }
}

/// Moves the headers into the [`RequestHead`] that the routes are given.
fn take_head(
    mut request: Request<Incoming>, request_context: RequestContext, origin: RequestOrigin,
) -> (Request<Incoming>, Arc<RequestHead>) {
    let head = Arc::new(RequestHead {
        method: request.method().clone(),
        uri: request.uri().clone(),
        dry_run: is_dry_run(request.headers()),
        headers: mem::take(request.headers_mut()),
        request_context,
        origin,
        caller: OnceLock::new(),
    });
    request.extensions_mut().insert(Arc::clone(&head));
    (request, head)
}

fn record_response(labels: RequestLabels, head: &RequestHead, response: &Response, begun: Instant) {
    let (status, took) = (response.status(), begun.elapsed());
    labels.count(status, took);
    let (route, method) = (labels.route(), labels.method());
    let (status, micros) = (status.as_u16(), took.as_micros() as u64);
    if status < 500 {
        tracing::debug!(route, method, status, micros, "request completed");
    } else {
        let code = response.extensions().get().map(|FailureCode(code)| code.as_str());
        let caller = head.caller.get();
        let (tenant, key) = (caller.map(|caller| caller.tenant.as_str()), caller.map(|caller| caller.key.as_str()));
        limited!(FAILED[usize::from(status)], warn, route, method, status, code, tenant, key, micros, "request failed");
    }
}
