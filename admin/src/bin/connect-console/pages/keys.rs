//! API keys: those of an agency, and one with everything that can be done with it.

pub(crate) mod changes;
mod samples;

use crate::context::View;
use crate::failure::Failure;
use crate::fields::with_query;
use crate::format::{captioned_table, number, time_or, time_text};
use crate::layout;
use crate::pages::filter::older;
use crate::pages::form::{Faults, Field, checkboxes, once, rotation};
use admin::console::Role;
use admin::keys::{self, Key, KeyFilter, SecretUse};
use common::model::Scope;
use maud::{Markup, html};
use warp::reply::Response;

/// The scopes with what they permit, for forms.
const SCOPES: [(&str, &str); 7] = [
    (Scope::EventsIngest.as_str(), "send events"),
    (Scope::ClientsRead.as_str(), "read and look up clients"),
    (Scope::ClientsWrite.as_str(), "create and update clients"),
    (Scope::LeadsRead.as_str(), "read enquiries and trips"),
    (Scope::LeadsWrite.as_str(), "create and change enquiries and trips"),
    (Scope::CreditWrite.as_str(), "send the two credit events, in addition to events:ingest"),
    (Scope::WebhooksRead.as_str(), "read the webhooks of the key's subscription"),
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

/// Keys of a page.
const PAGE: u32 = 100;

pub(crate) async fn list(view: View<'_>) -> Result<Response, Failure> {
    let query = &view.request.query;
    let is_revoked = query.get("state") == "revoked";
    let filter = KeyFilter { is_revoked: Some(is_revoked), before: query.optional("before") };
    let listed = view.shown(keys::list(view.client(), &view.tenant()?.slug, filter, PAGE).await?);
    let base = with_query(&view.tenant_path("/keys"), &[("state", if is_revoked { "revoked" } else { "" })]);
    let next = listed.items.first().filter(|_| listed.is_cut).map(|key| key.prefix.as_str());
    let content = html! {
        @if view.may(Role::Admin) {
            p { a.button href=(view.tenant_path("/keys/new")) { "Create a key" } }
        }
        @if !listed.items.is_empty() {
            (table(&view, if is_revoked { "Revoked keys" } else { "Active keys" }, &listed.items))
        } @else if is_revoked {
            p { "There is no revoked key." }
        } @else {
            p { "There is no active key. Partners sign their requests with a key: create one and hand over its secret." }
        }
        (older(&base, next))
        @if is_revoked { p { a href=(view.tenant_path("/keys")) { "Active keys" } } }
        @else { p { a href=(view.tenant_path("/keys?state=revoked")) { "Revoked keys" } } }
    };
    Ok(layout::page(&view, "API keys", &content))
}

fn table(view: &View<'_>, caption: &str, keys: &[Key]) -> Markup {
    html! {
        (captioned_table(caption, &["Name", "Key", "Scopes", "Origin", "Accepted, last day", "Refused, last day",
            "Last use", "Expires", "Created"], &html! {
            @for key in keys.iter().rev() {
                tr {
                    th scope="row" { a href=(view.tenant_path(&format!("/keys/{}", key.prefix))) { bdi { (key.name) } } }
                    td { code { (key.prefix) } }
                    td { (key.scopes.join(", ")) }
                    td { (key.origin.as_deref().unwrap_or("-")) }
                    td { (number(key.requests_last_day.accepted)) }
                    td { (refused(view, key)) }
                    td { (time_or(key.last_used_at.as_deref(), "not used")) }
                    td { (time_or(key.expires_at.as_deref(), "never")) }
                    td { (time_text(&key.created_at)) }
                }
            }
        }))
    }
}

/// The number of refused requests, with a link to why.
pub(super) fn refused(view: &View<'_>, key: &Key) -> Markup {
    let count = key.requests_last_day.refused;
    html! {
        @if count == 0 { "0" } @else {
            a href=(with_query(&view.tenant_path("/refusals"), &[("key", &key.prefix)])) { (number(count)) }
        }
    }
}

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    with_faults(view, &Faults::none()).await
}

/// The page, with the faults of a submitted form and what was typed there.
async fn with_faults(view: View<'_>, faults: &Faults) -> Result<Response, Failure> {
    let key = view.shown(keys::find_in(view.client(), view.tenant()?.id, view.id()?).await?);
    let path = |action: &str| view.tenant_path(&format!("/keys/{}{action}", key.prefix));
    let content = html! {
        (facts(&view, &key))
        @if key.revoked_at.is_none() && view.may(Role::Admin) {
            h2 { "Scopes" }
            form method="post" action=(path("/scopes")) {
                (once(&view))
                (checkboxes(
                    Field { name: "scopes", label: "What the key permits", hint: "Running programs apply the change within a second." },
                    &SCOPES, &faults.typed().map_or_else(|| key.scopes.clone(), |typed| typed.list("scopes")), faults
                ))
                button { "Change the scopes" }
            }
            h2 { "Replace the secret" }
            @let overlap = Field { name: "overlap", label: "How long the old secret stays valid", hint: "The user of the key switches to the new secret during this time." };
            (rotation(&view, &path("/rotate"), (overlap, &OVERLAPS), faults))
            @if key.secrets.len() > 1 {
                form method="post" action=(path("/end-overlap")) {
                    (once(&view))
                    button.danger { "End the overlap now" }
                    p.hint { "The old secret is refused within a second." }
                }
            }
            h2 { "Revoke the key" }
            p { "A revoked key is refused within a second. This cannot be undone." }
            p { a.button.danger href=(path("/revoke")) { "Revoke the key" } }
        }
    };
    Ok(layout::page_with(&view, faults.status(), &key.name, &content))
}

fn facts(view: &View<'_>, key: &Key) -> Markup {
    html! {
        dl {
            dt { "Key" } dd { code data-copy { (key.prefix) } }
            dt { "Scopes" } dd { (key.scopes.join(", ")) }
            dt { "Origin" } dd { (key.origin.as_deref().unwrap_or("-")) }
            dt { "Created" } dd { (time_text(&key.created_at)) }
            dt { "Last use" } dd { (time_or(key.last_used_at.as_deref(), "no use recorded")) }
            dt { "Requests in the last 24 hours" }
            dd { (number(key.requests_last_day.accepted)) " accepted, " (refused(view, key)) " refused" }
            dt { "Expires" } dd { (time_or(key.expires_at.as_deref(), "never")) }
            @if let Some(revoked) = &key.revoked_at { dt { "Revoked" } dd.bad { (time_text(revoked)) } }
        }
        p { a href=(with_query(&view.tenant_path("/refusals"), &[("key", &key.prefix)])) { "Why requests with this key were refused" } }
        @if key.revoked_at.is_none() {
            (captioned_table(
                "Secrets. One that was not used for seven days is safe to revoke.",
                &["Secret", "Last use", "Valid until", "Safe to revoke"],
                &html! { @for secret in &key.secrets { (secret_row(secret)) } }
            ))
        }
    }
}

fn secret_row(secret: &SecretUse) -> Markup {
    html! {
        tr {
            th scope="row" { (if secret.current { "current" } else { "old" }) }
            td { (time_or(secret.last_used_at.as_deref(), "not used")) }
            td { (time_or(secret.valid_until.as_deref(), "-")) }
            td { (if secret.safe_to_revoke { "yes" } else { "no" }) }
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
