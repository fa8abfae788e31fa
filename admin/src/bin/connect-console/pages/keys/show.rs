//! The page of a key: its facts, and forms that change it.

use super::list::refused;
use super::{OVERLAPS, SCOPES};
use crate::context::View;
use crate::failure::Failure;
use crate::fields::with_query;
use crate::format::{number, time_or, time_text};
use crate::layout;
use crate::pages::form::{Faults, Field, checkboxes, select};
use admin::console::Role;
use admin::keys::{self, Key, SecretUse};
use hyper::StatusCode;
use maud::{Markup, html};
use warp::reply::Response;

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    with_faults(view, StatusCode::OK, None, &Faults::none()).await
}

/// The page, with the faults of a submitted form and the scopes that were selected in it.
pub(super) async fn with_faults(
    view: View<'_>,
    status: StatusCode,
    selected: Option<Vec<String>>,
    faults: &Faults,
) -> Result<Response, Failure> {
    let key = keys::find_in(view.client(), view.tenant()?.id, view.id()?).await?;
    let path = |action: &str| view.tenant_path(&format!("/keys/{}{action}", key.prefix));
    let content = html! {
        (facts(&view, &key))
        @if key.revoked_at.is_none() && view.may(Role::Admin) {
            h2 { "Scopes" }
            form method="post" action=(path("/scopes")) {
                (checkboxes(
                    Field { name: "scopes", label: "What the key permits", hint: "Running programs apply the change within a second." },
                    &SCOPES, selected.as_deref().unwrap_or(&key.scopes), faults
                ))
                button { "Change the scopes" }
            }
            h2 { "Replace the secret" }
            form method="post" action=(path("/rotate")) {
                (select(
                    Field { name: "overlap", label: "How long the old secret stays valid", hint: "The user of the key switches to the new secret during this time." },
                    &OVERLAPS, "24h", faults
                ))
                button { "Create a new secret" }
            }
            h2 { "Revoke the key" }
            p { "A revoked key is refused within a second. This cannot be undone." }
            p { a.button.danger href=(path("/revoke")) { "Revoke the key" } }
        }
    };
    Ok(layout::page_with(&view, status, &key.name, &content))
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
            div.scroll role="group" aria-label="Table" tabindex="0" { table {
                caption { "Secrets. One that was not used for seven days is safe to revoke." }
                thead { tr { th scope="col" { "Secret" } th scope="col" { "Last use" } th scope="col" { "Valid until" } th scope="col" { "Safe to revoke" } } }
                tbody { @for secret in &key.secrets { (secret_row(secret)) } }
            } }
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
