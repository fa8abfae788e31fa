//! The start page of an agency: what needs attention, and where things are.

use crate::context::View;
use crate::failure::Failure;
use crate::format::{number, time_or};
use crate::layout;
use admin::deliveries::{self, DeliveryQuery};
use admin::keys::{self, KeyFilter};
use admin::overview::{RECEIVERS_PAGE, RECENT, agency_attention, last_hour as hour_of};
use admin::subscriptions::{self, SubscriptionState};
use admin::tenants;
use chrono::TimeDelta;
use common::model::DeliveryState;
use maud::{Markup, html};
use warp::reply::Response;

/// Dead-lettered deliveries that are read to tell whether there are any.
const DEAD_READ: u32 = 100;

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let tenant = view.tenant()?;
    let active = KeyFilter { is_revoked: Some(false), ..KeyFilter::default() };
    let active = keys::list(view.client(), &tenant.slug, active, u32::MAX).await?.items;
    let receivers = subscriptions::list(view.client(), &tenant.slug, None, u32::MAX).await?.items;
    let ids: Vec<_> = receivers.iter().map(|receiver| receiver.id).collect();
    let failing =
        subscriptions::failing(view.client(), tenant.id, &ids, TimeDelta::minutes(RECENT as i64)).await?;
    let usage = tenants::usage_of_this_month(view.client(), &tenant.slug).await?;
    let failed = DeliveryQuery { state: Some(DeliveryState::DeadLettered), ..DeliveryQuery::default() };
    let failed = deliveries::page(view.client(), tenant.id, &failed, DEAD_READ).await?;
    let paused = receivers.iter().filter(|receiver| receiver.state == SubscriptionState::Paused).count();
    let is_exhausted = usage.quota.is_some_and(|quota| usage.writes >= quota);
    let newest_use = active.iter().filter_map(|key| key.last_used_at.as_deref()).max();
    let more = if failed.next.is_some() { " or more" } else { "" };
    let hour = hour_of(view.client(), Some(tenant.id)).await?;
    let mut attention: Vec<Markup> = Vec::new();
    for receiver in &receivers {
        let Some(health) = failing.get(&receiver.id) else { continue };
        attention.push(html! {
            a href=(view.tenant_path(&format!("/webhooks/{}", receiver.id))) { (receiver.url) }
            " fails: " (health.attempts - health.succeeded) " of " (health.attempts) " attempts of the last " (RECENT) " minutes"
            @if let Some((_, why)) = &health.last_failure { ", the last one with " (why) }
            "."
        });
    }
    // Receivers that are told by name need not be told again.
    for one in agency_attention(&hour).iter().filter(|one| failing.is_empty() || one.page != RECEIVERS_PAGE) {
        attention.push(html! { a href=(view.tenant_path(one.page)) { (one.text) } });
    }
    if !failed.items.is_empty() {
        attention.push(html! {
            a href=(view.tenant_path("/deliveries?state=dead")) { (failed.items.len()) (more) " deliveries were dead-lettered" }
            ": all their attempts failed. Correct the receiver, then replay them."
        });
    }
    if paused > 0 {
        attention.push(html! { a href=(view.tenant_path("/webhooks")) { (paused) " subscriptions are paused" } ": their deliveries wait." });
    }
    if is_exhausted {
        attention.push(html! { a href=(view.tenant_path("/settings")) { "The monthly quota is used up" } ": records writes get 429 until the next month. The operator can raise it." });
    }
    if active.is_empty() {
        attention.push(html! { a href=(view.tenant_path("/keys")) { "There is no active key" } ": nobody can send events for the agency." });
    }
    let content = html! {
        div data-refresh="30" {
            @if attention.is_empty() {
                p.notice { "Nothing needs attention." }
            } @else {
                div.alert { p { strong { "Needs attention" } } ul { @for item in &attention { li { (item) } } } }
            }
        }
        ul.cards {
            li { strong { (active.len()) } a href=(view.tenant_path("/keys")) { "active API keys" } p.soft { "Last use: " (time_or(newest_use, "none recorded yet")) } }
            li { strong { (receivers.len()) } a href=(view.tenant_path("/webhooks")) { "webhook subscriptions" } p.soft { (paused) " paused" } }
            li {
                strong { (number(usage.writes)) } a href=(view.tenant_path("/usage")) { "records writes in " (usage.month) }
                p.soft { "Quota: " (usage.quota.map_or_else(|| "no limit".to_owned(), number)) }
            }
            li { strong { (failed.items.len()) (more) } a href=(view.tenant_path("/deliveries?state=dead")) { "dead-lettered deliveries" } }
        }
        (super::activity::charts(&view, &hour, &[]).await?)
        h2 { "Where is my event?" }
        (super::search::form(&view.tenant_path("/find"), "", false))
    };
    Ok(layout::page(&view, "Overview", &content))
}
