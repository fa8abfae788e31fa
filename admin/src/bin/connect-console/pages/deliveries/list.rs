//! Deliveries page by page, with a filter in the URL.

use super::filter::Filter;
use super::{meaning, state};
use crate::context::View;
use crate::failure::Failure;
use crate::format::{time, time_or};
use crate::layout;
use admin::console::Role;
use admin::deliveries::{self, Attempt, Delivery, DeliveryPage};
use admin::subscriptions::{self, Subscription};
use common::event::OutboundType;
use common::model::DeliveryState;
use maud::{Markup, html};
use warp::reply::Response;

/// Deliveries of a page.
const PAGE: u32 = 50;

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let tenant = view.tenant()?;
    let filter = Filter::parse(&view.request.query);
    let receivers = subscriptions::list(view.client(), &tenant.slug).await?;
    let listed = deliveries::page(view.client(), tenant.id, &filter.query, PAGE).await?;
    let base = view.tenant_path("/deliveries");
    let can_replay =
        matches!(filter.query.state, Some(DeliveryState::DeadLettered | DeliveryState::Delivered));
    let content = html! {
        (form(&base, &filter, &receivers))
        @for fault in &filter.faults { p.fault { (fault) ". It was ignored." } }
        @if view.may(Role::Admin) && !listed.items.is_empty() {
            @if can_replay {
                p { a.button.plain href=(filter.path(&view.tenant_path("/deliveries/replay"), None)) { "Replay everything that matches" } }
            } @else {
                p.soft { "To replay several deliveries, choose the state dead-lettered or delivered." }
            }
        }
        (table(&view, &listed, &receivers))
        @if let Some(next) = listed.next {
            p { a.button.plain href=(filter.path(&base, Some(next))) { "Older" } }
        }
        @if filter.query.before.is_some() { p { a href=(filter.path(&base, None)) { "To the newest" } } }
    };
    Ok(layout::page(&view, "Deliveries", &content))
}

fn form(base: &str, filter: &Filter, receivers: &[Subscription]) -> Markup {
    let states = DeliveryState::ALL.map(|state| (state.as_str(), meaning(state).1));
    let types: Vec<(&str, &str)> =
        OutboundType::ALL.iter().map(|known| (known.as_str(), known.as_str())).collect();
    let ids: Vec<String> = receivers.iter().map(|receiver| receiver.id.to_string()).collect();
    let receivers: Vec<(&str, &str)> =
        ids.iter().map(String::as_str).zip(receivers.iter().map(|receiver| receiver.url.as_str())).collect();
    let choice = |name: &str, label: &str, options: &[(&str, &str)]| {
        let typed = filter.typed(name);
        html! {
            div {
                label for=(name) { (label) }
                select id=(name) name=(name) {
                    option value="" { "all" }
                    @for (value, text) in options { option value=(value) selected[*value == typed] { (text) } }
                }
            }
        }
    };
    html! {
        form.filter method="get" action=(base) {
            (choice("state", "State", &states))
            (choice("type", "Event type", &types))
            (choice("subscription", "Receiver", &receivers))
            div { label for="from" { "Event from (UTC)" } input id="from" name="from" type="datetime-local" value=(filter.typed("from")); }
            div { label for="to" { "to (UTC)" } input id="to" name="to" type="datetime-local" value=(filter.typed("to")); }
            button { "Show" }
            a href=(base) { "All" }
        }
    }
}

fn table(view: &View<'_>, listed: &DeliveryPage, receivers: &[Subscription]) -> Markup {
    if listed.items.is_empty() {
        return html! {
            @if listed.next.is_some() { p { "None among the deliveries that were read. Continue with older ones." } }
            @else { p { "There are no such deliveries. A delivery is one event for one webhook subscription." } }
        };
    }
    let receiver = |delivery: &Delivery| {
        let found = receivers.iter().find(|receiver| receiver.id == delivery.subscription_id);
        found.map_or_else(|| "removed subscription".to_owned(), |receiver| receiver.url.clone())
    };
    html! {
        div.scroll role="group" aria-label="Table" tabindex="0" { table {
            thead { tr {
                th scope="col" { "Event" } th scope="col" { "State" } th scope="col" { "Receiver" } th scope="col" { "Created" }
                th.number scope="col" { "Attempts" } th scope="col" { "Last response" } th scope="col" { "Next attempt" }
            } }
            tbody {
                @for delivery in &listed.items {
                    tr {
                        th scope="row" {
                            a href=(view.tenant_path(&format!("/deliveries/{}", delivery.id))) {
                                (delivery.event_type.as_deref().unwrap_or("event no longer stored"))
                            }
                        }
                        td { (state(delivery.state)) }
                        td { (receiver(delivery)) }
                        td { (time(delivery.created_at)) }
                        td.number { (delivery.attempts.len()) }
                        td { (delivery.attempts.last().map_or_else(|| "-".to_owned(), Attempt::outcome)) }
                        td { (time_or(delivery.next_attempt_at.as_deref(), "-")) }
                    }
                }
            }
        } }
    }
}
