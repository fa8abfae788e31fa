//! Spans in the JSON format of OTLP (OpenTelemetry protocol: ids as hexadecimal digits, 64-bit numbers as text). Pure.

use super::span::{Attribute, FinishedSpan, SpanKind};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

/// The status of a span that failed.
const ERROR: u8 = 2;

/// The body of an export: `spans` of the program `service`.
pub(super) fn body(service: &str, spans: &[FinishedSpan]) -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let resource = [
        attribute("service.name", &Attribute::Text(service.to_owned().into())),
        attribute("service.version", &version.into()),
    ];
    let spans: Vec<Value> = spans.iter().map(span).collect();
    let scope = json!({"scope": {"name": "connect", "version": version}, "spans": spans});
    let body = json!({"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [scope]}]});
    body.to_string().into_bytes()
}

fn span(span: &FinishedSpan) -> Value {
    let begun = span.begun_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let attributes: Vec<Value> = span.attributes.iter().map(|(name, value)| attribute(name, value)).collect();
    let mut json = json!({
        "traceId": span.context.trace_id.to_string(),
        "spanId": span.context.span_id.to_string(),
        "name": span.name,
        "kind": kind(span.kind),
        "startTimeUnixNano": nanos(begun),
        "endTimeUnixNano": nanos(begun + span.took),
        "attributes": attributes,
        "status": if span.is_failed { json!({"code": ERROR}) } else { json!({}) },
    });
    if let Some(parent) = span.parent {
        json["parentSpanId"] = parent.to_string().into();
    }
    json
}

fn attribute(name: &str, value: &Attribute) -> Value {
    let value = match value {
        Attribute::Text(text) => json!({"stringValue": text}),
        Attribute::Number(number) => json!({"intValue": number.to_string()}),
    };
    json!({"key": name, "value": value})
}

const fn kind(kind: SpanKind) -> u8 {
    match kind {
        SpanKind::Server => 2,
        SpanKind::Client => 3,
        SpanKind::Consumer => 5,
    }
}

fn nanos(since_epoch: Duration) -> String {
    since_epoch.as_nanos().to_string()
}

#[cfg(test)]
mod tests {
    use super::super::TraceContext;
    use super::*;

    fn finished(parent: Option<TraceContext>, is_failed: bool) -> Value {
        let context = TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap();
        let one = FinishedSpan {
            context,
            parent: parent.map(|parent| parent.span_id),
            name: "request",
            kind: SpanKind::Server,
            begun_at: SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_000_000_001),
            took: Duration::from_nanos(2_000),
            attributes: vec![("http.route", "/a".into()), ("http.response.status_code", 200_i64.into())],
            is_failed,
        };
        let body: Value = serde_json::from_slice(&body("connect-ingest", &[one])).unwrap();
        assert_eq!(
            body["resourceSpans"][0]["resource"]["attributes"][0]["value"]["stringValue"],
            "connect-ingest"
        );
        body["resourceSpans"][0]["scopeSpans"][0]["spans"][0].clone()
    }

    #[test]
    fn a_span_is_written_as_the_protocol_says() {
        let parent = TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01");
        let expected = json!({
            "traceId": "0af7651916cd43dd8448eb211c80319c",
            "spanId": "b7ad6b7169203331",
            "parentSpanId": "00f067aa0ba902b7",
            "name": "request",
            "kind": 2,
            "startTimeUnixNano": "1700000000000000001",
            "endTimeUnixNano": "1700000000000002001",
            "attributes": [
                {"key": "http.route", "value": {"stringValue": "/a"}},
                {"key": "http.response.status_code", "value": {"intValue": "200"}},
            ],
            "status": {},
        });
        assert_eq!(finished(parent, false), expected);
    }

    #[test]
    fn a_root_has_no_parent_and_a_failure_says_so() {
        let root = finished(None, true);
        assert!(root.get("parentSpanId").is_none(), "{root}");
        assert_eq!(root["status"], json!({"code": 2}));
    }
}
