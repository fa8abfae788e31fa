//! The request that is sent to a receiver (specification: Delivery request).

use super::WebhookRequest;
use bytes::Bytes;
use common::sealed::Secret;
use common::signature::{sign_standard_webhook, sign_webhook};
use http_body_util::Full;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::http::uri::InvalidUri;
use hyper::{HeaderMap, Method, Request, Uri};
use uuid::fmt::Hyphenated;

const EMPTY: HeaderValue = HeaderValue::from_static("");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Any response will do. Some firewalls refuse requests that do not say so (D42).
const ANYTHING: HeaderValue = HeaderValue::from_static("*/*");
const AGENT: HeaderValue = HeaderValue::from_static(common::version::USER_AGENT);
const SIGNATURE: HeaderName = HeaderName::from_static("x-connect-signature");
const TENANT: HeaderName = HeaderName::from_static("x-connect-tenant");
const EVENT: HeaderName = HeaderName::from_static("x-connect-event");
const TRACEPARENT: HeaderName = HeaderName::from_static(common::trace::TRACEPARENT);
const DELIVERY: HeaderName = HeaderName::from_static("x-connect-delivery");
const SEQUENCE: HeaderName = HeaderName::from_static("x-connect-sequence");
/// Those of Standard Webhooks, beside which a library needs nothing.
const STANDARD_ID: HeaderName = HeaderName::from_static("webhook-id");
const STANDARD_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const STANDARD_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
/// Number of headers, including `Content-Length`.
const HEADERS: usize = 14;

/// The request, signed. Its length is added when it is written.
pub(super) fn request(webhook: &WebhookRequest<'_>) -> Result<Request<Full<Bytes>>, InvalidUri> {
    let mut request = Request::new(Full::new(webhook.body.clone()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = Uri::try_from(webhook.url.as_str())?;
    *request.headers_mut() = headers(webhook);
    Ok(request)
}

fn headers(webhook: &WebhookRequest<'_>) -> HeaderMap {
    let (secrets, timestamp) = (webhook.secrets.iter().map(Secret::reveal), webhook.now.timestamp());
    let signature = sign_webhook(secrets.clone().map(str::as_bytes), timestamp, &webhook.body);
    let (mut delivery, mut event) = ([0; Hyphenated::LENGTH], [0; Hyphenated::LENGTH]);
    let delivery = webhook.delivery_id.hyphenated().encode_lower(&mut delivery);
    let event = webhook.event_id.hyphenated().encode_lower(&mut event);
    let standard_signature = sign_standard_webhook(secrets, event, timestamp, &webhook.body);
    let mut headers = HeaderMap::with_capacity(HEADERS);
    headers.insert(HOST, value(webhook.url.authority()));
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(ACCEPT, ANYTHING);
    headers.insert(USER_AGENT, AGENT);
    headers.insert(SIGNATURE, signature.try_into().unwrap_or(EMPTY));
    headers.insert(TENANT, value(webhook.tenant));
    headers.insert(EVENT, value(webhook.event_type));
    headers.insert(DELIVERY, value(delivery));
    headers.insert(SEQUENCE, webhook.number.into());
    // Secrets that were made otherwise sign only as specified.
    if !standard_signature.is_empty() {
        headers.insert(STANDARD_ID, value(event));
        headers.insert(STANDARD_TIMESTAMP, timestamp.into());
        headers.insert(STANDARD_SIGNATURE, value(&standard_signature));
    }
    headers.insert(TRACEPARENT, value(&webhook.context.to_header()));
    headers
}

/// Slugs, types and hosts have no control characters, so the fallback is never used.
fn value(text: &str) -> HeaderValue {
    HeaderValue::from_bytes(text.as_bytes()).unwrap_or(EMPTY)
}
