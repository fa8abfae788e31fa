//! Credentials (specification: Authentication).

use crate::http::route::Endpoint;
use common::signature::Scheme;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The security requirement of an endpoint: all three headers, and the scope.
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

/// The security requirement of the records API, for operations that have none of their own. Each operation has, with its scope.
pub(super) fn global() -> Vec<BTreeMap<&'static str, Vec<&'static str>>> {
    vec![["ConnectKey", "ConnectTenant", "ConnectSignatureV2"].map(|name| (name, Vec::new())).into()]
}

/// The schemes that [`required`] and webhooks name.
pub(super) fn schemes() -> Value {
    let header = |name: &str, description: &str| {
        json!({"type": "apiKey", "in": "header", "name": name, "\
        description": description})
    };
    json!({
        "ConnectKey": header("X-Connect-Key", "The visible prefix of an active API key."),
        "ConnectTenant": header("X-Connect-Tenant", "The slug of the key's agency, in upper or lower case."),
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
the subscription's secret. For some time after a secret is rotated there is a second `v1`; accept the delivery if one of \
the two verifies.";
