//! The table of refusals: status, code, message and headers of every response that is not a success (specification:
//! Errors; D4).

use bytes::Bytes;
use common::metrics::{Handles, OVERLOADED};
use common::write::WriteRefusal;
use metrics::Counter;
use serde_json::{Value, json};
use std::sync::OnceLock;
use strum::{EnumCount, IntoStaticStr, VariantArray};
use warp::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use warp::http::{HeaderValue, StatusCode};
use warp::reply::Response;

static OVERLOAD_COUNTERS: Handles<Counter, { OverloadReason::COUNT }> = Handles::new();

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, EnumCount)]
pub(crate) enum Refusal {
    /// Authentication failed. Callers are never told which check failed.
    Unauthorized,
    /// The credentials are valid, but not for this tenant or route.
    Forbidden,
    /// The body is invalid; the text names the places.
    InvalidRequest(String),
    NotFound,
    /// The route exists, but not with this method; the text lists its methods, as in an `Allow` header.
    MethodNotAllowed(String),
    /// The body didn't arrive in time.
    RequestTimeout,
    /// The body has more than this number of bytes, `CONNECT_MAX_BODY`.
    PayloadTooLarge(usize),
    /// Postgres does not respond, or too many requests wait for it: keys and replays cannot be checked, or records not
    /// read. Nothing was ingested, written or read.
    ReplayStoreUnavailable,
    /// A gate is closed ([`OverloadReason`]). Nothing was ingested, written or read.
    Overloaded {
        /// Seconds after which a retry makes sense.
        retry_after: u32,
    },
    /// A batch was published or perhaps published, but there is no result yet (D9).
    ProcessingTimeout,
    /// A records POST without its key.
    IdempotencyKeyRequired,
    /// A look-up without a field to look for; the text says which are possible.
    LookupFieldRequired(&'static str),
    /// The key reads more often than its tenant allows (D23).
    RateLimited,
    /// A refusal by the rules of the records API, in ingest or in the worker.
    Write(WriteRefusal),
    /// An internal error. Its message reveals no details.
    Internal,
}

/// A gate that refuses with 503 `overloaded`, in the order in which a request passes them. Callers see the code only,
/// metrics show the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumCount, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum OverloadReason {
    /// A trusted proxy passes on as many requests of the address or network as these may have connections. Who connects
    /// directly gets no response: the connection is closed.
    Connections,
    /// `CONNECT_BODY_BUDGET` bytes are allocated for bodies, or an address or network has used up its share of them.
    Body,
    /// The tenant has used up its share of the work that may wait to be applied (`admission`), or of the requests that
    /// may wait at the end of a feed.
    Tenant,
    /// The broker is not connected, blocks publishers or is slow to confirm, or its queue is full or does not exist.
    Queue,
}

impl OverloadReason {
    /// All reasons, in the order of their declaration.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The value of the metric's label `reason`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Counts the refusal and returns it, with `Retry-After: 1`.
    pub(crate) fn refuse(self) -> Refusal {
        self.refuse_after(1)
    }

    /// The same with another `Retry-After`, in seconds.
    pub(crate) fn refuse_after(self, retry_after: u32) -> Refusal {
        OVERLOAD_COUNTERS.get(self as usize, || metrics::counter!(OVERLOADED, "reason" => self.as_str())).increment(1);
        Refusal::Overloaded { retry_after }
    }
}

/// The code of a refusal, as an extension of its response if that has a status from 500 on.
#[derive(Clone, Debug)]
pub(crate) struct FailureCode(pub(crate) String);

/// A row of the table.
pub(crate) struct RefusalRow {
    pub(crate) status: StatusCode,
    /// `{statusCode, code, message}`, and the ids that go with the code.
    pub(crate) body: Value,
    /// The header `Retry-After`, in seconds.
    pub(crate) retry_after: Option<u32>,
    pub(crate) allow: Option<String>,
}

impl RefusalRow {
    fn new(status: StatusCode, code: &str, message: &str) -> Self {
        let body = json!({"statusCode": status.as_u16(), "code": code, "message": message});
        Self { status, body, retry_after: None, allow: None }
    }

    /// The wording of these refusals is in `common`, because ingest and the worker share them.
    fn of(refusal: &WriteRefusal) -> Self {
        let status = StatusCode::from_u16(refusal.status_and_message().0).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { status, body: refusal.body(), retry_after: refusal.retry_after(), allow: None }
    }

    fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    fn allow(self, methods: &str) -> Self {
        Self { allow: Some(methods.to_owned()), ..self }
    }
}

/// The message of every 401 and 403 (specification: Authentication, 5).
const INVALID_CREDENTIALS: &str = "Invalid Connect credentials";

impl Refusal {
    /// The response of the refusal; also the source of the API's description.
    pub(crate) fn row(&self) -> RefusalRow {
        use StatusCode as S;
        match self {
            Self::Unauthorized => RefusalRow::new(S::UNAUTHORIZED, "unauthorized", INVALID_CREDENTIALS),
            Self::Forbidden => RefusalRow::new(S::FORBIDDEN, "forbidden", INVALID_CREDENTIALS),
            Self::InvalidRequest(faults) => RefusalRow::new(S::BAD_REQUEST, "invalid_request", faults),
            Self::NotFound => {
                RefusalRow::new(S::NOT_FOUND, "not_found", "No such route; GET /docs describes all of them")
            }
            Self::MethodNotAllowed(methods) => {
                RefusalRow::new(S::METHOD_NOT_ALLOWED, "method_not_allowed", "Method not allowed").allow(methods)
            }
            Self::RequestTimeout => {
                RefusalRow::new(S::REQUEST_TIMEOUT, "request_timeout", "The request body did not arrive in time")
            }
            Self::PayloadTooLarge(max) => {
                let message = format!("The request body is larger than {max} bytes");
                RefusalRow::new(S::PAYLOAD_TOO_LARGE, "payload_too_large", &message)
            }
            Self::ReplayStoreUnavailable => {
                let message = "The store is unavailable; the request had no effect";
                RefusalRow::new(S::SERVICE_UNAVAILABLE, "replay_store_unavailable", message).retry_after(1)
            }
            Self::Overloaded { retry_after } => {
                let message = "The service is overloaded; the request had no effect";
                RefusalRow::new(S::SERVICE_UNAVAILABLE, "overloaded", message).retry_after(*retry_after)
            }
            Self::ProcessingTimeout => {
                let message = "No result yet; a retry reports what was applied";
                RefusalRow::new(S::SERVICE_UNAVAILABLE, "processing_timeout", message).retry_after(5)
            }
            Self::IdempotencyKeyRequired => {
                RefusalRow::new(S::BAD_REQUEST, "idempotency_key_required", "The header Idempotency-Key is required")
            }
            Self::LookupFieldRequired(needed) => RefusalRow::new(S::BAD_REQUEST, "lookup_field_required", needed),
            Self::RateLimited => {
                RefusalRow::new(S::TOO_MANY_REQUESTS, "rate_limited", "Too many reads per second").retry_after(1)
            }
            Self::Write(refusal) => RefusalRow::of(refusal),
            Self::Internal => RefusalRow::new(S::INTERNAL_SERVER_ERROR, "internal_error", "Internal error"),
        }
    }
}

/// A response with a JSON body, of refusals and of what was done. No cache may keep it: it knows nothing of signatures, and would
/// respond to unsigned requests as well.
pub(crate) fn json_response(status: StatusCode, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(body.into().into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

impl warp::Reply for Refusal {
    fn into_response(self) -> Response {
        /// The bodies of refused credentials are serialized once, because attackers cause most of them.
        static CREDENTIALS: [OnceLock<(StatusCode, Bytes)>; 2] = [const { OnceLock::new() }; 2];
        let place = [Self::Unauthorized, Self::Forbidden].iter().position(|refusal| *refusal == self);
        if let Some(written) = place.and_then(|place| CREDENTIALS.get(place)) {
            let (status, body) = written.get_or_init(|| {
                let row = self.row();
                (row.status, row.body.to_string().into())
            });
            return json_response(*status, body.clone());
        }
        let row = self.row();
        let mut response = json_response(row.status, row.body.to_string());
        if row.status.is_server_error() {
            let code = row.body["code"].as_str().unwrap_or_default().to_owned();
            response.extensions_mut().insert(FailureCode(code));
        }
        let headers = response.headers_mut();
        if let Some(seconds) = row.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if let Some(methods) = row.allow.and_then(|methods| HeaderValue::try_from(methods).ok()) {
            headers.insert(ALLOW, methods);
        }
        response
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use std::collections::HashSet;
    use std::mem;
    use warp::Reply;

    /// Specification: Errors, Events route; D4. Every variant.
    pub(crate) fn table() -> Vec<(Refusal, u16, &'static str, bool)> {
        let all = vec![
            (Refusal::Unauthorized, 401, "unauthorized", false),
            (Refusal::Forbidden, 403, "forbidden", false),
            (Refusal::InvalidRequest("events: is required".to_owned()), 400, "invalid_request", false),
            (Refusal::NotFound, 404, "not_found", false),
            (Refusal::MethodNotAllowed("POST".to_owned()), 405, "method_not_allowed", false),
            (Refusal::RequestTimeout, 408, "request_timeout", false),
            (Refusal::PayloadTooLarge(4 << 20), 413, "payload_too_large", false),
            (Refusal::ReplayStoreUnavailable, 503, "replay_store_unavailable", true),
            (Refusal::Overloaded { retry_after: 1 }, 503, "overloaded", true),
            (Refusal::ProcessingTimeout, 503, "processing_timeout", true),
            (Refusal::IdempotencyKeyRequired, 400, "idempotency_key_required", false),
            (Refusal::LookupFieldRequired("externalId is required"), 400, "lookup_field_required", false),
            (Refusal::RateLimited, 429, "rate_limited", true),
            (Refusal::Write(WriteRefusal::NotFound), 404, "not_found", false),
            (Refusal::Internal, 500, "internal_error", false),
        ];
        let variants: HashSet<_> = all.iter().map(|(refusal, ..)| mem::discriminant(refusal)).collect();
        assert_eq!(variants.len(), Refusal::COUNT);
        all
    }

    async fn body(response: Response) -> Value {
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&bytes).unwrap()
    }

    #[tokio::test]
    async fn every_refusal_has_the_response_of_the_specification() {
        for (refusal, status, code, may_retry) in table() {
            let response = refusal.clone().into_response();
            assert_eq!(response.status(), status, "{refusal:?}");
            assert_eq!(response.headers().contains_key(RETRY_AFTER), may_retry, "{refusal:?}");
            assert_eq!(response.headers().contains_key(ALLOW), status == 405, "{refusal:?}");
            assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
            let body = body(response).await;
            assert_eq!((&body["statusCode"], &body["code"]), (&json!(status), &json!(code)));
            assert_eq!(body.as_object().unwrap().len(), 3, "{body}");
        }
    }
}
