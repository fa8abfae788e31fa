//! A minimal OTLP collector for tests.

use serde_json::Value;
use tests::{Authority, MAX_WAIT, Receiver, WorldBuilder, eventually, text};

/// A span as the collector got it.
#[derive(Clone, Debug)]
pub(super) struct Span {
    /// The program that sent it.
    pub(super) service: String,
    /// The span as it was sent.
    pub(super) json: Value,
}

impl Span {
    /// A field that is text; empty if it is absent.
    pub(super) fn field(&self, name: &str) -> &str {
        self.json[name].as_str().unwrap_or_default()
    }

    /// An attribute, as text.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        let attributes = self.json["attributes"].as_array()?;
        let found = attributes.iter().find(|attribute| attribute["key"] == name)?;
        found["value"].as_object()?.values().next()?.as_str()
    }

    /// Whether its status is an error.
    pub(super) fn is_failed(&self) -> bool {
        self.json["status"]["code"] == 2
    }
}

/// A minimal collector, which accepts everything that is posted to it.
pub(super) struct Collector(Receiver);

impl Collector {
    pub(super) fn start() -> Self {
        Self(Receiver::http())
    }

    pub(super) fn https(authority: &Authority) -> Self {
        Self(Receiver::https(authority))
    }

    /// Makes the programs of a world export to this collector.
    pub(super) fn attach_to(&self, builder: WorldBuilder) -> WorldBuilder {
        builder.set("OTEL_EXPORTER_OTLP_ENDPOINT", &self.0.url(""))
    }

    /// All spans received so far.
    pub(super) fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        for export in self.0.received() {
            assert_eq!((export.method(), export.target()), ("POST", "/v1/traces"));
            assert_eq!(export.header("content-type"), "application/json");
            for resource in export.json()["resourceSpans"].as_array().expect("resources") {
                let service = text(&resource["resource"]["attributes"][0]["value"]["stringValue"]);
                for json in resource["scopeSpans"][0]["spans"].as_array().expect("spans") {
                    spans.push(Span { service: service.to_owned(), json: json.clone() });
                }
            }
        }
        spans
    }

    /// Waits for the one span with that name for which `is` holds.
    pub(super) async fn span(&self, name: &str, is: impl Fn(&Span) -> bool) -> Span {
        eventually(&format!("a span {name}"), MAX_WAIT, async || {
            let spans = self.spans();
            let mut found = spans.iter().filter(|span| span.field("name") == name && is(span));
            match (found.next(), found.next()) {
                (Some(span), None) => Ok(span.clone()),
                _ => Err(format!("{spans:?}")),
            }
        })
        .await
    }
}
