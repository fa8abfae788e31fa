//! API keys.

pub(crate) mod create;
pub(crate) mod list;
pub(crate) mod revoke;
pub(crate) mod rotate;
mod samples;
pub(crate) mod scopes;
pub(crate) mod show;

use common::model::Scope;
use maud::{Markup, html};

/// The scopes with what they permit, for forms.
const SCOPES: [(&str, &str); 6] = [
    (Scope::EventsIngest.as_str(), "send events"),
    (Scope::ClientsRead.as_str(), "read and look up clients"),
    (Scope::ClientsWrite.as_str(), "create and update clients"),
    (Scope::LeadsRead.as_str(), "read enquiries and trips"),
    (Scope::LeadsWrite.as_str(), "create and change enquiries and trips"),
    (Scope::CreditWrite.as_str(), "send the two credit events, in addition to events:ingest"),
];

/// How long an old secret can stay valid, for forms.
const OVERLAPS: [(&str, &str); 4] = [
    ("24h", "24 hours: signatures with both secrets are accepted"),
    ("7d", "7 days: signatures with both secrets are accepted"),
    ("30d", "30 days: signatures with both secrets are accepted"),
    ("", "none: the old secret is refused within a second"),
];

/// A new secret, which this page alone shows.
fn secret(prefix: &str, secret: &str, slug: &str) -> Markup {
    html! {
        div.secret {
            p { strong { "Copy the secret now. It is shown once and cannot be read again." } }
            dl {
                dt { "Key" } dd { code data-copy { (prefix) } }
                dt { "Secret" } dd { code data-copy { (secret) } }
                dt { "Agency" } dd { code { (slug) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scope_is_offered() {
        assert_eq!(SCOPES.map(|(name, _)| name), Scope::ALL.map(Scope::as_str));
    }
}
