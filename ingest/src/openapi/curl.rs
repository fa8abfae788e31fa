//! A signed curl call of each endpoint. Tests run them all.

use super::examples;
use crate::http::route::Endpoint;
use common::signature::Scheme;

/// The call, with shell variables for everything that differs between callers.
pub(super) fn sample(endpoint: Endpoint) -> String {
    let mut lines = Vec::new();
    let body = examples::request(endpoint);
    if let Some(body) = body {
        lines.push(format!("BODY='{}'", of_any_agency(body.trim())));
    }
    let Some(scheme) = endpoint.scheme() else {
        return format!("curl -sS --fail-with-body \"$CONNECT_URL{}\"", endpoint.route().pattern());
    };
    lines.push("T=$(date +%s)".to_owned());
    let target = target(endpoint);
    lines.push(format!("TARGET={target}"));
    lines.push(mac(scheme, endpoint.method(), body.is_some()));
    lines.push(call(endpoint, scheme, body.is_some()));
    lines.join("\n")
}

/// The example body with a shell variable for the tenant. The body is in single quotes, which close and reopen around the
/// variable.
fn of_any_agency(body: &str) -> String {
    body.replace(r#""tenant": "demo""#, r#""tenant": "'"$CONNECT_TENANT"'""#)
}

fn mac(scheme: Scheme, method: &str, has_body: bool) -> String {
    let body = if has_body { "\"$BODY\"" } else { "''" };
    let signed = match scheme {
        Scheme::V1 => format!("'%s.%s' \"$T\" {body}"),
        Scheme::V2 => format!("'%s.%s.%s.%s' \"$T\" {method} \"$TARGET\" {body}"),
    };
    format!(
        "MAC=$(printf {signed} |\n  openssl dgst -sha256 -hmac \"$CONNECT_SECRET\" -hex | sed 's/.*= //')"
    )
}

fn call(endpoint: Endpoint, scheme: Scheme, has_body: bool) -> String {
    let name = match scheme {
        Scheme::V1 => "v1",
        Scheme::V2 => "v2",
    };
    let mut parts = vec![
        format!("curl -sS --fail-with-body -X {} \"$CONNECT_URL$TARGET\"", endpoint.method()),
        "-H \"X-Connect-Key: $CONNECT_KEY\" -H \"X-Connect-Tenant: $CONNECT_TENANT\"".to_owned(),
        format!("-H \"X-Connect-Signature: t=$T,{name}=$MAC\""),
    ];
    parts.extend(examples::idempotency_key(endpoint).map(|key| format!("-H 'Idempotency-Key: {key}'")));
    if has_body {
        parts.push("-H 'Content-Type: application/json' --data-binary \"$BODY\"".to_owned());
    }
    parts.join(" \\\n  ")
}

/// The request target as shell text. The same text is signed and sent.
fn target(endpoint: Endpoint) -> String {
    let path = endpoint.route().pattern().replace("{clientId}", "$CLIENT_ID").replace("{leadId}", "$LEAD_ID");
    match endpoint {
        Endpoint::FindClients => format!("'{path}?email=ana%40example.com'"),
        Endpoint::FindLeads => format!("'{path}?externalId=order-4711'"),
        Endpoint::SendEvents
        | Endpoint::CreateClient
        | Endpoint::GetClient
        | Endpoint::ChangeClient
        | Endpoint::CreateLead
        | Endpoint::GetLead
        | Endpoint::ChangeLead
        | Endpoint::GetTrip
        | Endpoint::ChangeTrip
        | Endpoint::GetOpenApi
        | Endpoint::GetDocs => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::route::Route;

    #[test]
    fn no_sample_is_of_one_agency_only() {
        for endpoint in Route::ALL.iter().flat_map(|route| route.endpoints()) {
            let sample = sample(*endpoint);
            assert!(!sample.contains("\"demo\""), "{sample}");
            assert_eq!(sample.contains("\"tenant\""), *endpoint == Endpoint::SendEvents, "{sample}");
        }
    }
}
