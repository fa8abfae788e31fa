//! Webhook deliveries: page by page with a filter in the URL, and one with its attempts.

use crate::context::{Change, Context, View};
use crate::failure::Failure;
use crate::fields::{Fields, with_query};
use crate::format::{data_table, pill, pretty_json, time, time_or};
use crate::layout;
use crate::pages::filter::{Filter, before};
use crate::pages::form::once;
use admin::audit::Actor;
use admin::console::Role;
use admin::deliveries::{self, Attempt, Delivery, DeliveryPage, DeliveryQuery};
use admin::subscriptions::{self, Subscription, SubscriptionState};
use chrono::TimeDelta;
use common::clock;
use common::event::OutboundType;
use common::model::DeliveryState;
use common::version::USER_AGENT;
use maud::{Markup, html};
use tokio_postgres::Client;
use uuid::Uuid;
use warp::reply::Response;

/// What a state means, for filters. `pending` and `dead` must not be confused: one is attempted again, the other is not.
pub(super) const fn meaning(state: DeliveryState) -> &'static str {
    match state {
        DeliveryState::Pending => "Waiting or retrying",
        DeliveryState::Delivered => "Delivered",
        DeliveryState::DeadLettered => "Failed for good",
        DeliveryState::Dropped => "Dropped: subscription removed, or a failed test",
    }
}

fn state(delivery: &Delivery) -> Markup {
    match delivery.state {
        DeliveryState::Pending if delivery.attempts.is_empty() => pill("soft", "Waiting"),
        DeliveryState::Pending => pill("warn", "Retrying"),
        DeliveryState::Delivered => pill("good", "Delivered"),
        DeliveryState::DeadLettered => pill("bad", "Failed"),
        DeliveryState::Dropped => pill("soft", "Dropped"),
    }
}

/// The time before now from which on events are shown, by its name in the URL.
const RANGES: [(&str, &str, TimeDelta); 3] = [
    ("1h", "1 hour", TimeDelta::hours(1)),
    ("24h", "24 hours", TimeDelta::hours(24)),
    ("7d", "7 days", TimeDelta::days(7)),
];

/// The filter in the fields of a query or a form.
pub(super) fn parse_filter(fields: &Fields) -> Filter<DeliveryQuery> {
    let range = |name: &str| RANGES.into_iter().find(|(known, ..)| *known == name);
    let ranges = RANGES.map(|(name, ..)| name);
    let types: Vec<_> = OutboundType::ALL.iter().map(|known| known.as_str()).collect();
    Filter::parse(fields, &["state", "type", "subscription", "from", "to", "range"], |typed| {
        let (from, to) = typed.period();
        DeliveryQuery {
            from: from.or_else(|| Some(clock::database_now() - typed.choice("range", "range", &ranges, range)?.2)),
            to,
            state: typed.choice("state", "state", &DeliveryState::ALL.map(DeliveryState::as_str), DeliveryState::parse),
            event_type: typed.choice("type", "event type", &types, OutboundType::parse),
            subscription: typed.parse("subscription", "subscription", |text| Uuid::try_parse(text).ok()),
            before: before(fields),
        }
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
    let can_replay = matches!(filter.selected.state, Some(DeliveryState::DeadLettered | DeliveryState::Delivered));
    let ranges = |name: &str| {
        let others = filter.fields().filter(|(field, _)| !["from", "to", "range"].contains(field));
        with_query(&base, &others.chain([("range", name)]).collect::<Vec<_>>())
    };
    let content = html! {
        (form(&base, &filter, &receivers))
        p.ranges {
            @for (name, text, _) in RANGES {
                a href=(ranges(name)) aria-current=[(filter.typed("range") == name).then_some("true")] { (text) }
            }
            a href=(ranges("")) { "All times" }
        }
        @for fault in filter.faults() { p.fault { (fault) ". It was ignored." } }
        @if view.may(Role::Admin) && !listed.items.is_empty() {
            @if can_replay {
                p { a.button.plain href=(filter.path(&view.tenant_path("/deliveries/replay"), None)) { "Replay everything that matches" } }
            } @else {
                p.soft { "To replay several deliveries, choose the state Failed for good or Delivered." }
            }
        }
        div data-refresh="5" { (table(&view, &listed, &receivers, true)) }
        @if let Some(next) = listed.next {
            p { a.button.plain href=(filter.path(&base, Some(next))) { "Older" } }
        }
        @if filter.selected.before.is_some() { p { a href=(filter.path(&base, None)) { "To the newest" } } }
    };
    Ok(layout::page(&view, "Deliveries", &content))
}

fn form(base: &str, filter: &Filter<DeliveryQuery>, receivers: &[Subscription]) -> Markup {
    let states = DeliveryState::ALL.map(|state| (state.as_str(), meaning(state)));
    let types: Vec<(&str, &str)> = OutboundType::ALL.iter().map(|known| (known.as_str(), known.as_str())).collect();
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
            @let range = filter.typed("range");
            @if !range.is_empty() { input type="hidden" name="range" value=(range); }
            (choice("state", "State", &states))
            (choice("type", "Event type", &types))
            (choice("subscription", "Receiver", &receivers))
            div.period { div { label for="from" { "Event from (UTC)" } input id="from" name="from" type="datetime-local" value=(filter.typed("from")); }
                div { label for="to" { "to (UTC)" } input id="to" name="to" type="datetime-local" value=(filter.typed("to")); } }
            button { "Show" }
            a href=(base) { "Clear the filter" }
        }
    }
}

/// Deliveries to these receivers, a line each. The page of a subscription leaves its receiver out.
pub(super) fn table(view: &View<'_>, listed: &DeliveryPage, receivers: &[Subscription], with_receiver: bool) -> Markup {
    let is_paused = |id: Uuid| receivers.iter().any(|one| one.id == id && one.state == SubscriptionState::Paused);
    if listed.items.is_empty() {
        return html! {
            @if listed.next.is_some() { p { "None among the deliveries that were read. Continue with older ones." } }
            @else { p { "There are no such deliveries. A delivery is one event for one webhook subscription." } }
        };
    }
    let mut headings = vec!["Event", "State", "Receiver", "Created", "~#Attempts", "Last response", "~Next attempt"];
    headings.retain(|heading| with_receiver || *heading != "Receiver");
    html! {
        div.lines {
            (data_table(&headings, &html! {
                @for delivery in &listed.items {
                    tr {
                        th scope="row" {
                            a href=(view.tenant_path(&format!("/deliveries/{}", delivery.id))) {
                                (delivery.event_type.as_deref().unwrap_or("event no longer stored"))
                            }
                        }
                        td { @if delivery.next_attempt_at.is_some() && is_paused(delivery.subscription_id) { (pill("warn", "Paused")) } @else { (state(delivery)) } }
                        @if with_receiver { td.wide title=(delivery.url) { (delivery.url.split_once("://").map_or(delivery.url.as_str(), |(_, rest)| rest)) } }
                        td { (time(delivery.created_at)) }
                        td.number { (delivery.attempts.len()) }
                        @let outcome = delivery.attempts.last().map_or_else(|| "-".to_owned(), Attempt::outcome);
                        td.long title=(outcome) { (outcome.rsplit(": ").next().unwrap_or_default()) }
                        @let next = delivery.next_attempt_at.as_deref();
                        td { @if next.is_some() && is_paused(delivery.subscription_id) { "when resumed" } @else { (time_or(next, "-")) } }
                    }
                }
            }))
        }
    }
}

/// The delivery with this id, if it belongs to the tenant, for those who see contacts with what the receiver responded.
async fn find(client: &Client, context: &Context<'_>) -> Result<Delivery, Failure> {
    let tenant = context.tenant()?.id;
    let delivery = deliveries::find(client, context.id()?, context.sees_contacts()).await?;
    if delivery.tenant == tenant { Ok(delivery) } else { Err(Failure::NotFound) }
}

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let delivery = view.shown(find(view.client(), &view).await?);
    let envelope = if view.sees_contacts() {
        deliveries::envelope(view.client(), delivery.tenant, delivery.event_id).await?
    } else {
        None
    };
    let id = delivery.subscription_id.to_string();
    let found = subscriptions::find_in(view.client(), &view.tenant()?.slug, &id).await;
    let is_paused = delivery.next_attempt_at.is_some() && found.is_ok_and(|one| one.state == SubscriptionState::Paused);
    let content = html! {
        @if view.request.query.get("sent-after") == delivery.attempts.len().to_string() { p.notice role="status" { "The next attempt is being made." } }
        div data-refresh=[(delivery.state == DeliveryState::Pending).then_some("5")] {
            (facts(&view, &delivery, is_paused))
            @if view.may(Role::Admin) && !is_paused { (action(&view, &delivery)) }
            h2 { "Attempts" }
            (attempts(&delivery))
        }
        h2 { "Request" }
        (request(&view, &delivery))
        @match envelope {
            Some(envelope) => {
                pre.wrapped { code data-copy { (pretty_json(&envelope)) } }
                details {
                    summary { "The body as it is signed, byte for byte" }
                    pre.wrapped { code data-copy { (envelope) } }
                }
            }
            None if view.sees_contacts() => { p { "The event is no longer stored." } }
            None => { p { "Only administrators see the body and what the receiver responded, because both may contain contact data." } }
        }
    };
    let title = delivery.event_type.as_deref().unwrap_or("Delivery");
    Ok(layout::page(&view, title, &content))
}

/// What an administrator can do with a delivery.
fn action(view: &View<'_>, delivery: &Delivery) -> Markup {
    let path = |action: &str| view.tenant_path(&format!("/deliveries/{}{action}", delivery.id));
    let (path, button, hint) = match delivery.state {
        DeliveryState::Pending => (
            path("/send-now"),
            "Send now",
            "Makes the next attempt at once, instead of at its time. It counts as one of the delivery's attempts.",
        ),
        DeliveryState::DeadLettered | DeliveryState::Delivered => (
            path("/replay"),
            "Send it again",
            "With the same event id and delivery id: a receiver that got it before recognizes it.",
        ),
        DeliveryState::Dropped => return html! {},
    };
    html! {
        form method="post" action=(path) { (once(view)) button { (button) } p.hint { (hint) } }
    }
}

fn facts(view: &View<'_>, delivery: &Delivery, is_paused: bool) -> Markup {
    let subscription = view.tenant_path(&format!("/webhooks/{}", delivery.subscription_id));
    let event = view.tenant_path(&format!("/find?id={}", delivery.event_id));
    html! {
        dl {
            dt { "State" } dd { (state(delivery)) }
            dt { "Receiver" } dd { a href=(subscription) { (delivery.url) } }
            dt { "Delivery" } dd { code data-copy { (delivery.id) } }
            dt { "Event" } dd { code data-copy { (delivery.event_id) } " " a href=(event) { "Where is it?" } }
            dt { "Origin" } dd { (delivery.origin.as_deref().unwrap_or("-")) }
            dt { "Created" } dd { (time(delivery.created_at)) }
            dt { "Next attempt" } dd {
                @if is_paused { a href=(subscription) { "when the subscription is resumed" } "; without the pause: " }
                (time_or(delivery.next_attempt_at.as_deref(), "none"))
            }
        }
    }
}

/// All attempts, with the responses of failed ones.
fn attempts(delivery: &Delivery) -> Markup {
    if delivery.attempts.is_empty() {
        return html! { p { "There was no attempt yet." } };
    }
    data_table(
        &["Attempt", "Result", "Signed at (t)", "#Duration", "Response"],
        &html! {
            @for (number, attempt) in (1..).zip(&delivery.attempts) {
                tr {
                    td { (number) }
                    td {
                        @let answered = attempt.status.map(|_| attempt.outcome());
                        (pill(if attempt.is_success() { "good" } else { "bad" }, answered.as_deref().unwrap_or("No response")))
                        @if answered.is_none() { " " (attempt.outcome()) }
                        @if let Some(url) = &attempt.url { " to " code { (url) } }
                    }
                    td.tight { (time(attempt.at)) " " code { (attempt.at.timestamp()) } }
                    td.number { (attempt.duration_ms) " ms" }
                    td {
                        @let parts = [&attempt.response_headers, &attempt.response].map(|part| part.as_deref().unwrap_or_default());
                        @if parts.concat().is_empty() { "-" } @else {
                            details open[!attempt.is_success()] {
                                summary { "Headers and body" }
                                @for part in parts.into_iter().filter(|part| !part.is_empty()) { pre.wrapped { code { (part) } } }
                            }
                        }
                    }
                }
            }
        },
    )
}

/// The request of the last attempt, or of the first one if there was none. What is not stored is left out.
fn request(view: &View<'_>, delivery: &Delivery) -> Markup {
    let at = delivery.attempts.last().map(|attempt| attempt.at.timestamp().to_string());
    let t = at.as_deref().unwrap_or("<seconds when it is sent>");
    let slug = view.tenant_if_any().map_or("", |tenant| tenant.slug.as_str());
    let event_type = delivery.event_type.as_deref().unwrap_or("<no longer stored>");
    let Delivery { id, event_id, number, .. } = delivery;
    let url = delivery.attempts.last().and_then(|last| last.url.as_ref()).unwrap_or(&delivery.url);
    let request = format!(
        "POST {url}
Content-Type: application/json
Accept: */*
User-Agent: {USER_AGENT}
X-Connect-Signature: t={t},v1=<not stored>
X-Connect-Tenant: {slug}
X-Connect-Event: {event_type}
X-Connect-Delivery: {id}
X-Connect-Sequence: {number}
Webhook-Id: {event_id}
Webhook-Timestamp: {t}
Webhook-Signature: v1,<not stored>
Traceparent: <not stored>"
    );
    html! {
        pre.wrapped { code data-copy { (request) } }
        p.hint { "Each attempt is signed when it is sent. The values in the query of the URL are not shown. The three headers Webhook-... are sent only if the signing secret begins with whsec_." }
    }
}

pub(crate) async fn send_now(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let delivery = find(change.client(), &context).await?;
    let page = context.tenant_path(&format!("/deliveries/{}?sent-after={}", delivery.id, delivery.attempts.len()));
    let send = async |client: &mut Client, actor: &Actor| deliveries::send_now(client, actor, &delivery).await;
    change.run(page, send).await
}

pub(crate) async fn replay(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let delivery = find(change.client(), &context).await?;
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
        let state = "state \"lost\" is not known: choose pending, delivered, dead, dropped".to_owned();
        assert!(filter.faults().len() == 3 && filter.faults().contains(&state), "{:?}", filter.faults());
        assert_eq!(filter.selected, DeliveryQuery::default());
        let filter = parse_filter(&Fields::parse(b"from=2026-05-01T10:00&to=2026-05-01T09:00").unwrap());
        assert_eq!(filter.faults(), ["\"from\" is after \"to\""]);
        assert_eq!(filter.selected, DeliveryQuery::default());
    }
}
