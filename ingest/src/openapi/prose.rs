//! The chapters of the description: everything that concerns more than one endpoint. Their figures and tables are generated.

use super::document::Chapter;
use super::schemas::payloads;
use super::{delivery, error_responses, refusals, webhooks};
use crate::http::conditions;
use crate::http::idempotency_key::IdempotencyKey;
use crate::settings::IngestSettings;
use common::event::{BATCH_MAX, InboundType, MAX_DEPTH};
use common::model::{Party, Scope, text};
use common::record::{AGE_MAX, TRAVELERS_MAX};
use common::settings::Section;
use common::signature::{Signed, TOLERANCE_SECONDS, sign};

/// Records reads of a key per second, unless the agency has another rate (D23): the default of its column.
pub(crate) const READS_PER_SECOND: u32 = 100;

pub(super) fn chapters() -> Vec<Chapter> {
    let chapter = |id, title, text: String| Chapter { id, title, text };
    vec![
        chapter("start", "Where to begin", include_str!("prose/start.md").to_owned()),
        chapter("signing", "Signing requests", signing()),
        chapter("scopes", "Scopes", fill(include_str!("prose/scopes.md"), &[("scopes", scopes())])),
        chapter(
            "bodies",
            "Strict records, lenient events",
            fill(include_str!("prose/bodies.md"), &[("depth", MAX_DEPTH.to_string())]),
        ),
        chapter("types", "Event types", fill(include_str!("prose/events.md"), &[("types", event_types())])),
        chapter(
            "repeating",
            "Repeating a request",
            fill(include_str!("prose/repeating.md"), &[("key_max", IdempotencyKey::MAX_LEN.to_string())]),
        ),
        chapter("versions", "Versions", include_str!("prose/versions.md").to_owned()),
        chapter("limits", "Limits", limits()),
        chapter("errors", "Errors", fill(include_str!("prose/errors.md"), &[("codes", codes())])),
        chapter("tracing", "Following a request", include_str!("prose/tracing.md").to_owned()),
        chapter("webhooks", "Receiving webhooks", receiving()),
    ]
}

/// Puts values in the place of `{{name}}`.
fn fill(text: &str, values: &[(&str, String)]) -> String {
    values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{{{name}}}}}"), value))
}

fn signing() -> String {
    let (secret, t, body) = ("sk_example", 1_777_629_600, r#"{"events":[]}"#);
    let target = "/api/v1/crm/connect/clients?email=ana%40example.com";
    let v1 = sign(secret.as_bytes(), t, Signed::Body(body.as_bytes()));
    let v2 = sign(secret.as_bytes(), t, Signed::Request { method: "GET", target, body: b"" });
    let values = [
        ("secret", secret.to_owned()),
        ("t", t.to_string()),
        ("body", body.to_owned()),
        ("target", target.to_owned()),
        ("v1", v1),
        ("v2", v2),
        ("tolerance", TOLERANCE_SECONDS.to_string()),
    ];
    fill(include_str!("prose/signing.md"), &values)
}

fn scopes() -> String {
    table(Scope::ALL.map(|scope| [format!("`{scope}`"), allows(scope).to_owned()]))
}

/// Specification: Scopes.
const fn allows(scope: Scope) -> &'static str {
    match scope {
        Scope::EventsIngest => "send events",
        Scope::ClientsRead => "read and look up clients",
        Scope::ClientsWrite => "create and change clients",
        Scope::LeadsRead => "read enquiries and trips; look enquiries up",
        Scope::LeadsWrite => "open enquiries; change enquiries and trips",
        Scope::CreditWrite => {
            "send `booking.credit_applied` and `employee.credit_updated`, in addition to `events:ingest`"
        }
    }
}

fn event_types() -> String {
    table(InboundType::ALL.iter().map(|kind| {
        let payload = payloads::of(*kind).map_or_else(|| "not read".to_owned(), |name| format!("`{name}`"));
        [format!("`{kind}`"), payloads::effect(*kind).to_owned(), payload]
    }))
}

fn limits() -> String {
    let body = IngestSettings::VARIABLES.iter().find(|variable| variable.name == "CONNECT_MAX_BODY");
    let values = [
        ("batch", BATCH_MAX),
        ("envelope_id", text::ENVELOPE_ID),
        ("email", text::EMAIL),
        ("phone", text::PHONE),
        ("external_id", text::EXTERNAL_ID),
        ("name", text::NAME),
        ("line", text::LINE),
        ("page", text::PAGE),
        ("notes", text::NOTES),
        ("message", text::MESSAGE),
        ("itinerary", text::ITINERARY_BYTES / 1024),
        ("travelers", TRAVELERS_MAX),
        ("age", AGE_MAX as usize),
        ("party", Party::COUNT_MAX as usize),
        ("key_max", IdempotencyKey::MAX_LEN),
        ("if_match", conditions::IF_MATCH_MAX),
        ("booking_ref", text::BOOKING_REF),
        ("dates", text::DATES),
        ("wishes", text::LIST_ITEMS),
        ("profile", text::PROFILE_BYTES / 1024),
        ("reads", READS_PER_SECOND as usize),
    ];
    let mut values: Vec<_> = values.iter().map(|(name, value)| (*name, value.to_string())).collect();
    values.push(("tolerance", TOLERANCE_SECONDS.to_string()));
    values.push(("body", body.and_then(|variable| variable.default).unwrap_or_default().to_owned()));
    fill(include_str!("prose/limits.md"), &values)
}

fn codes() -> String {
    let mut rows: Vec<[String; 3]> = Vec::new();
    for refusal in refusals::all() {
        let status = refusal.row().status.as_u16().to_string();
        let row = [
            status,
            format!("`{}`", error_responses::code(&refusal)),
            refusals::meaning(&refusal).to_owned(),
        ];
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    rows.sort();
    table(rows)
}

fn receiving() -> String {
    let headers = webhooks::headers().map(|(name, what, _)| [format!("`{name}`"), what.to_owned()]);
    let values = [
        ("headers", table(headers)),
        ("tolerance", TOLERANCE_SECONDS.to_string()),
        ("timeout", delivery::TIMEOUT_SECONDS.to_string()),
        ("attempts", delivery::ATTEMPTS.to_string()),
        ("waits", delivery::waits()),
        ("cap", (delivery::LONGEST_WAIT_SECONDS / 60).to_string()),
    ];
    fill(include_str!("prose/webhooks.md"), &values)
}

/// Rows of a Markdown table.
fn table<const N: usize>(rows: impl IntoIterator<Item = [String; N]>) -> String {
    let lines: Vec<String> = rows.into_iter().map(|row| format!("| {} |", row.join(" | "))).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_of_the_chapters_is_filled_in() {
        for Chapter { title, text, .. } in chapters() {
            assert!(!text.contains("{{"), "{title}: {text}");
        }
        let limits = limits();
        assert!(limits.contains("| 1 to 100 |") && limits.contains("| 4MiB, unless"), "{limits}");
    }

    /// Computed with `openssl dgst -sha256 -hmac sk_example`.
    #[test]
    fn the_sample_signatures_are_those_of_another_implementation() {
        let text = signing();
        for mac in [
            "v1=c4b0ff2954339938a1f111d8128269e06984193396075eedf58a23599261b7a7",
            "v2=3035f5ad3d41904d065bdc81c0af9b4d2811291c912debb2d580ec7df5e74125",
        ] {
            assert!(text.contains(&format!("`t=1777629600,{mac}`")), "{text}");
        }
    }
}
