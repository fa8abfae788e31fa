//! Webhook deliveries: page by page with a filter in the URL, and one with its attempts.

use crate::context::{Change, View};
use crate::failure::Failure;
use crate::fields::Fields;
use crate::format::{data_table, time, time_or};
use crate::layout;
use crate::pages::filter::{Filter, before};
use crate::pages::form::once;
use admin::audit::Actor;
use admin::console::Role;
use admin::deliveries::{self, Attempt, Delivery, DeliveryPage, DeliveryQuery};
use admin::subscriptions::{self, Subscription};
use common::event::OutboundType;
use common::model::{DeliveryState, TenantId};
use maud::{Markup, html};
use tokio_postgres::Client;
use uuid::Uuid;
use warp::reply::Response;

/// What a state means. `pending` and `dead` must not be confused: one is attempted again, the other is not.
const fn meaning(state: DeliveryState) -> (&'static str, &'static str) {
    match state {
        DeliveryState::Pending => ("warn", "pending: another attempt follows"),
        DeliveryState::Delivered => ("good", "delivered"),
        DeliveryState::DeadLettered => ("bad", "dead-lettered: all attempts failed"),
        DeliveryState::Dropped => ("soft", "dropped: the subscription was removed"),
    }
}

fn state(state: DeliveryState) -> Markup {
    let (class, text) = meaning(state);
    html! { span class=(class) { (text) } }
}

/// The filter in the fields of a query or a form.
pub(super) fn parse_filter(fields: &Fields) -> Filter<DeliveryQuery> {
    Filter::parse(fields, &["state", "type", "subscription", "from", "to"], |typed| DeliveryQuery {
        state: typed.parse("state", "state", DeliveryState::parse),
        event_type: typed.parse("type", "event type", OutboundType::parse),
        subscription: typed.parse("subscription", "subscription", |text| Uuid::try_parse(text).ok()),
        from: typed.time("from"),
        to: typed.time("to"),
        before: before(fields),
    })
}

/// Deliveries of a page.
const PAGE: u32 = 50;

pub(crate) async fn list(view: View<'_>) -> Result<Response, Failure> {
    let tenant = view.tenant()?;
    let filter = parse_filter(&view.request.query);
    let receivers = subscriptions::list(view.client(), &tenant.slug, None, u32::MAX).await?.items;
    let listed = view.shown(deliveries::page(view.client(), tenant.id, &filter.selected, PAGE).await?);
    let base = view.tenant_path("/deliveries");
    let can_replay =
        matches!(filter.selected.state, Some(DeliveryState::DeadLettered | DeliveryState::Delivered));
    let content = html! {
        (form(&base, &filter, &receivers))
        @for fault in filter.faults() { p.fault { (fault) ". It was ignored." } }
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
        @if filter.selected.before.is_some() { p { a href=(filter.path(&base, None)) { "To the newest" } } }
    };
    Ok(layout::page(&view, "Deliveries", &content))
}

fn form(base: &str, filter: &Filter<DeliveryQuery>, receivers: &[Subscription]) -> Markup {
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
        (data_table(&["Event", "State", "Receiver", "Created", "#Attempts", "Last response",
            "Next attempt"], &html! {
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
        }))
    }
}

/// The delivery with this id, if it belongs to the tenant.
pub(super) async fn find(client: &Client, tenant: TenantId, id: &str) -> Result<Delivery, Failure> {
    let delivery = deliveries::find(client, id).await?;
    if delivery.tenant == tenant { Ok(delivery) } else { Err(Failure::NotFound) }
}

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let delivery = view.shown(find(view.client(), view.tenant()?.id, view.id()?).await?);
    let envelope = if view.sees_contacts() {
        deliveries::envelope(view.client(), delivery.tenant, delivery.event_id).await?
    } else {
        None
    };
    let can_replay = matches!(delivery.state, DeliveryState::DeadLettered | DeliveryState::Delivered);
    let content = html! {
        (facts(&view, &delivery))
        @if can_replay && view.may(Role::Admin) {
            form method="post" action=(view.tenant_path(&format!("/deliveries/{}/replay", delivery.id))) {
                (once(&view))
                button { "Send it again" }
                p.hint { "With the same event id and delivery id: a receiver that got it before recognizes it." }
            }
        }
        h2 { "Attempts" }
        @if delivery.attempts.is_empty() { p { "There was no attempt yet." } }
        @for (number, attempt) in (1..).zip(&delivery.attempts) { (attempt_section(number, attempt)) }
        h2 { "Body" }
        @match envelope {
            Some(envelope) => { pre role="group" aria-label="Body" tabindex="0" { code { (envelope) } } }
            None if view.sees_contacts() => { p { "The event is no longer stored." } }
            None => { p { "Only administrators see the body and what the receiver responded, because both may contain contact data." } }
        }
    };
    let title = delivery.event_type.as_deref().unwrap_or("Delivery");
    Ok(layout::page(&view, title, &content))
}

fn facts(view: &View<'_>, delivery: &Delivery) -> Markup {
    let subscription = view.tenant_path(&format!("/webhooks/{}", delivery.subscription_id));
    let event = view.tenant_path(&format!("/find?id={}", delivery.event_id));
    html! {
        dl {
            dt { "State" } dd { (state(delivery.state)) }
            dt { "Delivery" } dd { code data-copy { (delivery.id) } }
            dt { "Event" } dd { a href=(event) { code { (delivery.event_id) } } }
            dt { "Origin" } dd { (delivery.origin.as_deref().unwrap_or("-")) }
            dt { "Subscription" } dd { a href=(subscription) { code { (delivery.subscription_id) } } }
            dt { "Created" } dd { (time(delivery.created_at)) }
            dt { "Next attempt" } dd { (time_or(delivery.next_attempt_at.as_deref(), "none")) }
        }
    }
}

fn attempt_section(number: usize, attempt: &Attempt) -> Markup {
    html! {
        h3 { "Attempt " (number) }
        dl {
            dt { "Time" } dd { (time(attempt.at)) }
            dt { "Result" } dd { (attempt.outcome()) }
            dt { "Duration" } dd { (attempt.duration_ms) " ms" }
            @if let Some(response) = attempt.response.as_deref().filter(|text| !text.is_empty()) {
                dt { "Response" } dd { pre.wrapped { code { (response) } } }
            }
        }
    }
}

pub(crate) async fn replay(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let delivery = find(change.client(), context.tenant()?.id, context.id()?).await?;
    let (id, page) = (delivery.id.to_string(), format!("/deliveries/{}?done=replayed", delivery.id));
    let replay = async |client: &mut Client, actor: &Actor| deliveries::replay_one(client, actor, &id).await;
    change.run(context.tenant_path(&page), replay).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_survives_its_url() {
        let url = b"state=dead&type=lead.assigned&from=2026-05-01T10:00&to=2026-05-01T12:00:00%2B02:00";
        let filter = parse_filter(&Fields::parse(url).unwrap());
        assert!(filter.faults().is_empty());
        assert_eq!(filter.selected.from, filter.selected.to);
        let path = filter.path("/d", Some(Uuid::nil()));
        let again = parse_filter(&Fields::parse(path.split_once('?').unwrap().1.as_bytes()).unwrap());
        assert_eq!(again.selected, DeliveryQuery { before: Some(Uuid::nil()), ..filter.selected });
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let filter = parse_filter(&Fields::parse(b"state=lost&from=yesterday&subscription=1").unwrap());
        assert_eq!(filter.faults().len(), 3, "{:?}", filter.faults());
        assert_eq!(filter.selected, DeliveryQuery::default());
    }
}
