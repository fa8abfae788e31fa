//! Formats webhooks for standard output, without secrets and signatures.

use chrono::{DateTime, Utc};
use common::clock::to_text;
use common::signature::SignatureError;
use serde_json::Value;

/// A received webhook and the result of its verification.
pub(crate) struct Webhook<'a> {
    pub(crate) at: DateTime<Utc>,
    pub(crate) event_type: &'a str,
    pub(crate) delivery: &'a str,
    pub(crate) tenant: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) verdict: Result<(), SignatureError>,
}

impl Webhook<'_> {
    /// One line; with `verbose`, followed by the body if the webhook verifies.
    pub(crate) fn text(&self, verbose: bool) -> String {
        let verdict = match self.verdict {
            Ok(()) => "verified".to_owned(),
            Err(why) => format!("NOT VERIFIED: {why}"),
        };
        let Self { event_type, delivery, tenant, .. } = self;
        let line =
            format!("{} {event_type} for {tenant}, delivery {delivery}: {verdict}\n", to_text(self.at));
        if verbose && self.verdict.is_ok() { line + &pretty(self.body) } else { line }
    }
}

fn pretty(body: &[u8]) -> String {
    let parsed = serde_json::from_slice::<Value>(body);
    parsed.map_or_else(|error| format!("  no JSON: {error}\n"), |value| format!("{value:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(verdict: Result<(), SignatureError>, verbose: bool) -> String {
        let at = DateTime::parse_from_rfc3339("2026-01-01T00:00:00Z").unwrap().to_utc();
        let body = br#"{"eventType":"lead.assigned"}"#;
        let (event_type, delivery, tenant) = ("lead.assigned", "0195f0c2", "demo");
        Webhook { at, event_type, delivery, tenant, body, verdict }.text(verbose)
    }

    #[test]
    fn a_line_says_what_came_and_whether_it_verifies() {
        let line = "2026-01-01T00:00:00.000Z lead.assigned for demo, delivery 0195f0c2: ";
        assert_eq!(text(Ok(()), false), format!("{line}verified\n"));
        assert_eq!(
            text(Ok(()), true),
            format!("{line}verified\n{{\n  \"eventType\": \"lead.assigned\"\n}}\n")
        );
        for verbose in [false, true] {
            assert_eq!(
                text(Err(SignatureError::Mismatch), verbose),
                format!("{line}NOT VERIFIED: mismatch\n")
            );
        }
    }
}
