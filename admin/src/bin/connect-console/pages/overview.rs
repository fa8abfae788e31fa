//! The overviews, of everything and of an agency: what needs attention, and where things are.

use super::{activity, runbook, search};
use crate::context::View;
use crate::failure::Failure;
use crate::format::{data_table, number, time, time_or};
use crate::layout;
use crate::response::redirect;
use admin::activity::{last_hour, queue_lengths};
use admin::attention::{self, AgencyOverview, Attention, Place, Scope};
use admin::tenants;
use common::model::searchable;
use maud::{Markup, html};
use warp::reply::Response;

/// Maximum number of agencies in the list.
const SHOWN_MAX: usize = 500;

/// The first page after signing in: for operators an overview of everything and the agencies, the own agency for others.
pub(crate) async fn start(view: View<'_>) -> Result<Response, Failure> {
    if let Some(slug) = &view.session.tenant_slug {
        return Ok(redirect(&format!("/agencies/{slug}")));
    }
    let search = searchable(view.request.query.get("search"));
    let all = tenants::list(view.client()).await?;
    let total = all.len();
    let matches =
        |tenant: &&tenants::Tenant| tenant.slug.contains(&search) || searchable(&tenant.name).contains(&search);
    let found: Vec<_> = all.iter().filter(matches).take(SHOWN_MAX).collect();
    let content = html! {
        div data-refresh="20" { (everything(&view).await?) }
        h2 #agencies { "Agencies" }
        form.filter method="get" action="/#agencies" {
            div { label for="search" { "Name or slug" } input id="search" name="search" type="search" value=(search); }
            button.plain { "Search" }
        }
        @if total == 0 {
            p { "There is no agency yet. Create one: " code { "connectctl tenant create --slug acme --name 'Acme Travel'" } }
        } @else {
            p.soft { (found.len()) " of " (total) " agencies" }
            (data_table(&["Agency", "Slug", "Discovery", "#Monthly quota", "#Reads per second", "Created"], &html! {
                @for tenant in found {
                    tr {
                        th scope="row" { a href={ "/agencies/" (tenant.slug) } { bdi { (tenant.name) } } }
                        td { code { (tenant.slug) } }
                        td { (if tenant.discovery { "on" } else { "off" }) }
                        td.number { (tenant.monthly_quota.map_or_else(|| "none".to_owned(), number)) }
                        td.number { (tenant.reads_per_second) }
                        td { (time(tenant.created_at)) }
                    }
                }
            }))
        }
    };
    Ok(layout::page(&view, "Overview", &content))
}

/// What needs attention, with what to do about it; and the last hour of everything.
async fn everything(view: &View<'_>) -> Result<Markup, Failure> {
    let servers = view.app.servers.lock().clone();
    let found = attention::find(view.client(), Scope::Installation(&servers)).await?;
    let hour = last_hour(view.client(), None).await?;
    let queues = queue_lengths(view.client()).await?;
    Ok(html! {
        (needs_attention(view, &found))
        (activity::charts(view, &hour, &queues).await?)
    })
}

/// The start page of an agency: what needs attention, and where things are.
pub(crate) async fn agency(view: View<'_>) -> Result<Response, Failure> {
    let tenant = view.tenant()?;
    let mut shown = AgencyOverview::load(view.client(), tenant.id, &tenant.slug).await?;
    shown.keys = view.shown(shown.keys);
    let mut found = attention::find(view.client(), Scope::Agency(&shown)).await?;
    attention::shorten(&mut found);
    let newest_use = shown.keys.iter().filter_map(|key| key.last_used_at.as_deref()).max();
    let usage = &shown.usage;
    let content = html! {
        div data-refresh="20" { (needs_attention(&view, &found)) }
        ul.cards {
            li { strong { (shown.keys.len()) } a href=(view.tenant_path("/keys")) { "active API keys" } p.soft { "Last use: " (time_or(newest_use, "none recorded yet")) } }
            li { strong { (shown.subscriptions.len()) } a href=(view.tenant_path("/webhooks")) { "webhook subscriptions" } p.soft { (shown.paused()) " paused" } }
            li {
                strong { (number(usage.writes)) } a href=(view.tenant_path("/usage")) { "records writes in " (usage.month) }
                p.soft { "Quota: " (usage.quota.map_or_else(|| "no limit".to_owned(), number)) }
            }
            li { strong { (shown.dead) @if shown.has_more_dead { " or more" } } a href=(view.tenant_path("/deliveries?state=dead")) { "deliveries that failed for good" } }
        }
        (activity::charts(&view, &shown.hour, &[]).await?)
        h2 { "Where is my event?" }
        (search::form(&view.tenant_path("/find"), "", view.sees_contacts()))
    };
    Ok(layout::page(&view, "Overview", &content))
}

/// What needs attention, each with where to look and what to do.
fn needs_attention(view: &View<'_>, found: &[Attention]) -> Markup {
    html! {
        @if found.is_empty() {
            p.notice { "Nothing needs attention." }
        } @else {
            div.alert {
                p { strong { "Needs attention" } }
                ul {
                    @for Attention { text, next, place, agencies, .. } in found {
                        @match place {
                            Place::Page(page) => li { a href=(view.tenant_path(page)) { (text) } " " (next) },
                            Place::Runbook(section) => li {
                                (text) " " (next) " " (runbook::link(section))
                                @for slug in agencies { ", " a href={ "/agencies/" (slug) } { "Overview: " (slug) } }
                            },
                        }
                    }
                }
            }
        }
    }
}
