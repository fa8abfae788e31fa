//! Credentials (specification: Authentication).

use crate::route::Endpoint;
use common::signature::Scheme;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What an endpoint requires: all three headers, and that the key has the scope.
pub(super) fn required(endpoint: Endpoint) -> Vec<BTreeMap<&'static str, Vec<&'static str>>> {
    let (Some(scheme), Some(scope)) = (endpoint.scheme(), endpoint.scope()) else { return Vec::new() };
    let signature = match scheme {
        Scheme::V1 => "ConnectSignatureV1",
        Scheme::V2 => "ConnectSignatureV2",
    };
    vec![BTreeMap::from([
        ("ConnectKey", vec![scope.as_str()]),
        ("ConnectTenant", Vec::new()),
        (signature, Vec::new()),
    ])]
}

/// The schemes that [`required`] and webhooks name.
pub(super) fn schemes() -> Value {
    let header = |name: &str, description: &str| {
        json!({"type": "apiKey", "in": "header", "name": name, "\
        description": description})
    };
    json!({
        "ConnectKey": header("X-Connect-Key", "The visible prefix of an active API key."),
        "ConnectTenant": header("X-Connect-Tenant", "The slug of the key's agency; trimmed, in any case."),
        "ConnectSignatureV1": header("X-Connect-Signature", V1),
        "ConnectSignatureV2": header("X-Connect-Signature", V2),
        "WebhookSignature": header("X-Connect-Signature", WEBHOOK),
    })
}

const V1: &str = "`t=<unix seconds>,v1=<64 hex digits>`: HMAC-SHA256 over `<t>.<raw body>`, keyed with the \
key's secret. For the events route only.";

const V2: &str = "`t=<unix seconds>,v2=<64 hex digits>`: HMAC-SHA256 over `<t>.<METHOD>.<path with query, \
exactly as sent>.<raw body>`, keyed with the key's secret. For the records routes only.";

const WEBHOOK: &str = "`t=<unix seconds>,v1=<64 hex digits>`: HMAC-SHA256 over `<t>.<raw body>`, keyed with \
the subscription's secret. While a rotated secret still signs there is a second `v1`; one that verifies is \
enough.";
