//! Refused requests: page by page, of an agency or of one of its keys; and why one was refused, and what to do.

use crate::context::View;
use crate::failure::Failure;
use crate::fields::with_query;
use crate::format::{data_table, time};
use crate::layout;
use admin::keys::{self, Key, KeyFilter};
use admin::refusals::{self, RefusalFilter, RefusedRequest, advice};
use maud::{Markup, html};
use uuid::Uuid;
use warp::reply::Response;

/// Refused requests of a page.
const PAGE: u32 = 50;
/// Characters of a detail in the list. The page of the request has all.
const DETAIL_SHOWN: usize = 80;

pub(crate) async fn list(view: View<'_>) -> Result<Response, Failure> {
    let tenant = view.tenant()?;
    let query = &view.request.query;
    // The name of a key of another agency is as unknown as one that does not exist.
    let key = match query.optional("key") {
        Some(prefix) => Some(view.shown(keys::find_in(view.client(), tenant.id, prefix).await?)),
        None => None,
    };
    let prefix = key.as_ref().map(|key| key.prefix.as_str());
    let before = Uuid::try_parse(query.get("before")).ok();
    let filter = RefusalFilter { tenant: tenant.slug.clone(), key: prefix.map(str::to_owned), before };
    let listed = refusals::list(view.client(), &filter, PAGE).await?;
    let most = if listed.items.is_empty() { 0 } else { u32::MAX };
    let keys = view.shown(keys::list(view.client(), &tenant.slug, KeyFilter::default(), most).await?).items;
    let base = view.tenant_path("/refusals");
    let path = |before: &str| with_query(&base, &[("key", prefix.unwrap_or_default()), ("before", before)]);
    let next = listed.items.first().filter(|_| listed.is_cut).map(|refused| refused.request_id.to_string());
    let content = html! {
        p { "Here you see why requests that named a key of the agency were refused. Callers are told what is wrong with a body, and never what is wrong with their credentials." }
        @if let Some(key) = &key {
            p { "Only requests with the key " a href=(view.tenant_path(&format!("/keys/{}", key.prefix))) { bdi { (key.name) } } ". " a href=(base) { "Of all keys" } }
        }
        div data-refresh="10" {
            @if listed.items.is_empty() {
                p { "There is no refused request. One appears about two seconds after it was refused." }
                p { "A request whose key does not exist is not shown: compare X-Connect-Key with the list of keys." }
            } @else { (table(&view, &listed.items, &keys)) }
        }
        @if let Some(next) = next { p { a.button.plain href=(path(&next)) { "Older" } } }
        @if before.is_some() { p { a href=(path("")) { "To the newest" } } }
        p.soft { "Of each key at most 20 a minute are recorded, 10 of them with the same reason, and as many again with malformed headers; the newest 200 are kept." }
        p { a href=(view.tenant_path("/signature")) { "Check a signature" } }
    };
    Ok(layout::page(&view, "Refused requests", &content))
}

/// Those that follow one another and are alike are one row.
fn table(view: &View<'_>, listed: &[RefusedRequest], keys: &[Key]) -> Markup {
    let path = |refused: &RefusedRequest| view.tenant_path(&format!("/refusals/{}", refused.request_id));
    let are_alike = |one: &RefusedRequest, next: &RefusedRequest| {
        (&one.key_prefix, &one.reason, &one.detail) == (&next.key_prefix, &next.reason, &next.detail)
            && (&one.method, &one.route, one.status) == (&next.method, &next.route, next.status)
    };
    let rows = html! {
        @for alike in listed.chunk_by(are_alike).rev() {
            @let refused = &alike[alike.len() - 1];
            tr {
                th scope="row" { a href=(path(refused)) { (refused.reason) } }
                td.wide title=[&refused.detail] { (shortened(refused.detail.as_deref().unwrap_or("-"))) }
                // Below the address that all routes have.
                @let route = format!("{} {}", refused.method, refused.route.strip_prefix("/api/v1/crm/connect").unwrap_or(&refused.route));
                td.long title=(route) { (route) }
                td { (refused.status) }
                td.long title=(refused.key_prefix) {
                    @if let Some(key) = keys.iter().find(|key| key.prefix == refused.key_prefix) {
                        bdi { (key.name) }
                    } @else {
                        code.tight { (refused.key_prefix) }
                    }
                }
                td.tight {
                    (time(refused.at)) " "
                    @if alike.len() > 1 {
                        details {
                            summary { (alike.len()) " times" }
                            @for one in alike.iter().rev() { a href=(path(one)) { (time(one.at)) } br; }
                        }
                    }
                }
            }
        }
    };
    html! { div.lines { (data_table(&["Reason", "Detail", "~Request", "Status", "~Key", "When"], &rows)) } }
}

fn shortened(detail: &str) -> String {
    detail.char_indices().nth(DETAIL_SHOWN).map_or_else(|| detail.to_owned(), |(end, _)| format!("{}…", &detail[..end]))
}

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let refused = refusals::find_in(view.client(), view.tenant()?.id, view.id()?).await?;
    let request = refused.request_id.to_string();
    let check = with_query(&view.tenant_path("/signature"), &[("request", &request)]);
    let content = html! {
        (facts(&view, &refused))
        h2 { "What to do" }
        p { (advice(&refused.reason)) }
        @if matches!(refused.status, 401 | 403) { p { a.button href=(check) { "Check the signature" } } }
        p { a href=(with_query(&view.tenant_path("/refusals"), &[("key", &refused.key_prefix)])) { "All refused requests of the key" } }
    };
    Ok(layout::page(&view, "Refused request", &content))
}

fn facts(view: &View<'_>, refused: &RefusedRequest) -> Markup {
    let key = view.tenant_path(&format!("/keys/{}", refused.key_prefix));
    html! {
        dl {
            dt { "Reason" } dd { (refused.reason) }
            dt { "Detail" } dd { (refused.detail.as_deref().unwrap_or("-")) }
            dt { "Status" } dd { (refused.status) }
            dt { "When" } dd { (time(refused.at)) }
            dt { "Route" } dd { code { (refused.method) " " (refused.route) } }
            dt { "Key" } dd { a href=(key) { code { (refused.key_prefix) } } }
            dt { "Request" } dd { code data-copy { (refused.request_id) } }
            dt { "Dry run" } dd { @if refused.dry_run { "yes, not counted" } @else { "no" } }
            dt { "Timestamp of the signature (t)" } dd { @match refused.signed_at { Some(t) => code { (t) }, None => "-" } }
            dt { "Bytes of the body" } dd { (refused.body_bytes) }
            dt { "SHA-256 of the body" } dd { @match &refused.body_sha256 { Some(hash) => code data-copy { (hash) }, None => "-" } }
        }
        p.soft { "The body and the signature are not stored." }
    }
}
