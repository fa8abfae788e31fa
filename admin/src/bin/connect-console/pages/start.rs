//! The first page after signing in: for operators an overview of everything and the agencies, the own agency for others.

use super::activity;
use super::overview::attention;
use crate::context::View;
use crate::failure::Failure;
use crate::format::{data_table, number, time};
use crate::layout;
use crate::response::redirect;
use admin::{overview, tenants};
use common::model::searchable;
use maud::{Markup, html};
use std::sync::PoisonError;
use warp::reply::Response;

/// Maximum number of agencies in the list.
const SHOWN_MAX: usize = 500;

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
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
        div data-refresh="30" { (overview(&view).await?) }
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
async fn overview(view: &View<'_>) -> Result<Markup, Failure> {
    let servers = view.app.servers.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let found = overview::attention(view.client(), &servers).await?;
    let hour = overview::last_hour(view.client(), None).await?;
    let queues = overview::queue_lengths(view.client()).await?;
    Ok(html! {
        (attention(view, &found))
        (activity::charts(view, &hour, &queues).await?)
    })
}
