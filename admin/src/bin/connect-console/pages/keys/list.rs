//! The keys of an agency.

use crate::context::View;
use crate::failure::Failure;
use crate::fields::with_query;
use crate::format::{number, time_or, time_text};
use crate::layout;
use admin::console::Role;
use admin::keys::{self, Key};
use maud::{Markup, html};
use warp::reply::Response;

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let listed = keys::list(view.client(), &view.tenant()?.slug).await?;
    let (active, revoked): (Vec<_>, Vec<_>) = listed.iter().partition(|key| key.revoked_at.is_none());
    let content = html! {
        @if view.may(Role::Admin) {
            p { a.button href=(view.tenant_path("/keys/new")) { "Create a key" } }
        }
        @if active.is_empty() {
            p { "There is no active key. Partners sign their requests with a key: create one and hand over its secret." }
        } @else {
            (table(&view, "Active keys", &active))
        }
        @if !revoked.is_empty() {
            details { summary { (revoked.len()) " revoked" } (table(&view, "Revoked keys", &revoked)) }
        }
    };
    Ok(layout::page(&view, "API keys", &content))
}

fn table(view: &View<'_>, caption: &str, keys: &[&Key]) -> Markup {
    html! {
        div.scroll role="group" aria-label="Table" tabindex="0" { table {
            caption { (caption) }
            thead { tr {
                th scope="col" { "Name" } th scope="col" { "Key" } th scope="col" { "Scopes" } th scope="col" { "Origin" }
                th scope="col" { "Accepted, last day" } th scope="col" { "Refused, last day" }
                th scope="col" { "Last use" } th scope="col" { "Expires" } th scope="col" { "Created" }
            } }
            tbody {
                @for key in keys {
                    tr {
                        th scope="row" { a href=(view.tenant_path(&format!("/keys/{}", key.prefix))) { (key.name) } }
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
            }
        } }
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
