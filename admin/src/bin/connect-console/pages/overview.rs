//! The start page of an agency: what needs attention, and where things are.

use super::runbook;
use crate::context::View;
use crate::failure::Failure;
use crate::format::{number, time_or};
use crate::layout;
use admin::overview::{Attention, Place, agency};
use maud::{Markup, html};
use warp::reply::Response;

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let tenant = view.tenant()?;
    let mut shown = agency(view.client(), tenant.id, &tenant.slug).await?;
    shown.shorten();
    let newest_use = shown.keys.iter().filter_map(|key| key.last_used_at.as_deref()).max();
    let more = if shown.has_more_dead { " or more" } else { "" };
    let usage = &shown.usage;
    let content = html! {
        div data-refresh="30" { (attention(&view, &shown.attention)) }
        ul.cards {
            li { strong { (shown.keys.len()) } a href=(view.tenant_path("/keys")) { "active API keys" } p.soft { "Last use: " (time_or(newest_use, "none recorded yet")) } }
            li { strong { (shown.subscriptions.len()) } a href=(view.tenant_path("/webhooks")) { "webhook subscriptions" } p.soft { (shown.paused()) " paused" } }
            li {
                strong { (number(usage.writes)) } a href=(view.tenant_path("/usage")) { "records writes in " (usage.month) }
                p.soft { "Quota: " (usage.quota.map_or_else(|| "no limit".to_owned(), number)) }
            }
            li { strong { (shown.dead) (more) } a href=(view.tenant_path("/deliveries?state=dead")) { "dead-lettered deliveries" } }
        }
        (super::activity::charts(&view, &shown.hour, &[]).await?)
        h2 { "Where is my event?" }
        (super::search::form(&view.tenant_path("/find"), "", false))
    };
    Ok(layout::page(&view, "Overview", &content))
}

/// What needs attention, each with where to look and what to do.
pub(super) fn attention(view: &View<'_>, found: &[Attention]) -> Markup {
    html! {
        @if found.is_empty() {
            p.notice { "Nothing needs attention." }
        } @else {
            div.alert {
                p { strong { "Needs attention" } }
                ul {
                    @for Attention { text, next, place, .. } in found {
                        @match place {
                            Place::Page(page) => li { a href=(view.tenant_path(page)) { (text) } " " (next) },
                            Place::Runbook(section) => li { (text) " " (next) " " (runbook::link(section)) },
                        }
                    }
                }
            }
        }
    }
}
