//! A refused request: why, and what to do.

use crate::context::View;
use crate::failure::Failure;
use crate::fields::with_query;
use crate::format::time;
use crate::layout;
use admin::refusals::{self, RefusedRequest, advice};
use maud::{Markup, html};
use warp::reply::Response;

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let refused = refusals::find_in(view.client(), view.tenant()?.id, view.id()?).await?;
    let request = refused.request_id.to_string();
    let check = with_query(&view.tenant_path("/signature"), &[("request", &request)]);
    let content = html! {
        (facts(&view, &refused))
        h2 { "What to do" }
        p { (advice(&refused.reason)) }
        p { a.button href=(check) { "Check the signature" } }
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
            dt { "Timestamp of the signature (t)" } dd { @match refused.signed_at { Some(t) => code { (t) }, None => "-" } }
            dt { "Body" } dd { (refused.body_bytes) " bytes" }
            dt { "SHA-256 of the body" } dd { @match &refused.body_sha256 { Some(hash) => code data-copy { (hash) }, None => "-" } }
        }
        p.soft { "The body and the signature are not stored." }
    }
}
