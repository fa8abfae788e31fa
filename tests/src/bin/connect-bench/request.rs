//! Signed requests as bytes.

use common::signature::{Signed, sign};
use tests::{ApiKey, EVENTS, now};

/// A batch of events.
pub(crate) fn events(key: &ApiKey, body: &str) -> Vec<u8> {
    let signature = sign(key.secret.as_bytes(), now(), Signed::Body(body.as_bytes()));
    assemble(key, "POST", EVENTS, &signature, "", body)
}

/// A records request; a POST needs an idempotency key.
pub(crate) fn records(
    key: &ApiKey,
    method: &str,
    target: &str,
    body: &str,
    idempotency_key: Option<&str>,
) -> Vec<u8> {
    let signed = Signed::Request { method, target, body: body.as_bytes() };
    let signature = sign(key.secret.as_bytes(), now(), signed);
    let header = idempotency_key.map(|key| format!("idempotency-key: {key}\r\n")).unwrap_or_default();
    assemble(key, method, target, &signature, &header, body)
}

fn assemble(key: &ApiKey, method: &str, target: &str, signature: &str, more: &str, body: &str) -> Vec<u8> {
    let ApiKey { tenant, prefix, .. } = key;
    let length = body.len();
    format!(
        "{method} {target} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         x-connect-key: {prefix}\r\nx-connect-tenant: {tenant}\r\nx-connect-signature: {signature}\r\n{more}\r\n{body}"
    )
    .into_bytes()
}
