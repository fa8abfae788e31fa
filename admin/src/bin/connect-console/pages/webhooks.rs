//! Webhook subscriptions: those of an agency, and one with the health of its receiver and everything that can be done with it.

pub(crate) mod changes;

use crate::context::View;
use crate::failure::Failure;
use crate::fields::with_query;
use crate::format::{data_table, pill, time};
use crate::layout;
use crate::pages::activity::attempts;
use crate::pages::deliveries::table;
use crate::pages::filter::{before, older};
use crate::pages::form::{Faults, Field, checkboxes, input, once, rotation, summary};
use admin::console::Role;
use admin::deliveries::{self, DeliveryQuery};
use admin::subscriptions::{self, HEALTH_DELIVERIES, ReceiverHealth, Subscription, SubscriptionState};
use common::event::OutboundType;
use maud::{Markup, html};
use std::slice;
use uuid::Uuid;
use warp::reply::Response;

/// The event types with their meaning, for forms.
const EVENT_TYPES: [(&str, &str); 6] = [
    (OutboundType::LeadAssigned.as_str(), "an advisor was assigned"),
    (OutboundType::LeadStageChanged.as_str(), "the stage of an enquiry changed"),
    (OutboundType::ProposalSent.as_str(), "a proposal was sent"),
    (OutboundType::ProposalViewed.as_str(), "the traveler opened the proposal"),
    (OutboundType::BookingConfirmed.as_str(), "a trip was booked"),
    (OutboundType::BookingCancelled.as_str(), "a booking was cancelled"),
];

fn state(subscription: &Subscription) -> Markup {
    match subscription.state {
        SubscriptionState::Active => pill("good", "Active"),
        SubscriptionState::Paused => pill("warn", "Paused"),
        SubscriptionState::Removed => pill("bad", "Removed"),
    }
}

fn event_names(subscription: &Subscription) -> String {
    subscription.events.as_ref().map_or_else(|| "all".to_owned(), |events| events.join(", "))
}

/// A new signing secret, which this page alone shows.
fn secret(secret: &str) -> Markup {
    html! {
        div.secret {
            p { strong { "Copy the signing secret now. It is shown once and cannot be read again." } }
            dl { dt { "Secret" } dd { code data-copy { (secret) } } }
            p { "The receiver verifies the header " code { "X-Connect-Signature" } " with it: HMAC-SHA256 of " code { "<t>.<body>" } ", hex." }
            p { "A library for Standard Webhooks verifies the headers " code { "Webhook-Id" } ", " code { "Webhook-Timestamp" } " and " code { "Webhook-Signature" } " with the same secret instead." }
        }
    }
}

/// Subscriptions of a page.
const PAGE: u32 = 100;

pub(crate) async fn list(view: View<'_>) -> Result<Response, Failure> {
    let newest = subscriptions::list(view.client(), &view.tenant()?.slug, before(&view.request.query), PAGE).await?;
    let listed = &newest.items;
    let next = listed.first().filter(|_| newest.is_cut).map(|subscription| subscription.id.to_string());
    let ids: Vec<Uuid> = listed.iter().map(|subscription| subscription.id).collect();
    let health = subscriptions::health(view.client(), view.tenant()?.id, &ids).await?;
    let content = html! {
        @if view.may(Role::Admin) {
            p { a.button href=(view.tenant_path("/webhooks/new")) { "Create a subscription" } }
        }
        @if listed.is_empty() {
            p { "There is no subscription. With one, a receiver of yours gets a signed POST when an advisor is assigned, a proposal is sent or a trip is booked." }
        } @else {
            div.lines { (data_table(&["Receiver", "State", "Events", "#Success, 24 h", "~#Response time", "Last failure", "~Key"], &html! {
                @for subscription in listed.iter().rev() {
                    tr {
                        th scope="row" { a href=(view.tenant_path(&format!("/webhooks/{}", subscription.id))) { (subscription.url) } }
                        td { (state(subscription)) }
                        td.long title=(event_names(subscription)) { (event_names(subscription)) }
                        (health_cells(health.get(&subscription.id)))
                        td { @if let Some(key) = &subscription.key { code { (key) } } @else { "-" } }
                    }
                }
            })) }
        }
        (older(&view.tenant_path("/webhooks"), next.as_deref()))
    };
    Ok(layout::page(&view, "Webhooks", &content))
}

/// How long an old secret can be used beside the new one.
const OVERLAPS: [(&str, &str); 3] = [
    ("24h", "24 hours: deliveries are signed with both secrets"),
    ("7d", "7 days: deliveries are signed with both secrets"),
    ("", "none: the old secret is not used any more"),
];

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    with_faults(view, &Faults::none()).await
}

/// Deliveries that the page shows.
const DELIVERIES: u32 = 10;

/// The page, with the faults of one of its forms and what was typed there.
async fn with_faults(view: View<'_>, faults: &Faults) -> Result<Response, Failure> {
    let tenant = view.tenant()?;
    let subscription = subscriptions::find_in(view.client(), &tenant.slug, view.id()?).await?;
    let id = subscription.id.to_string();
    let health = subscriptions::health(view.client(), tenant.id, &[subscription.id]).await?;
    let overlap = subscriptions::overlap(view.client(), subscription.id).await?;
    let day = subscriptions::last_day(view.client(), tenant.id, subscription.id).await?;
    let query = DeliveryQuery { subscription: Some(subscription.id), ..DeliveryQuery::default() };
    let newest = view.shown(deliveries::page(view.client(), tenant.id, &query, DELIVERIES).await?);
    let path = |action: &str| view.tenant_path(&format!("/webhooks/{id}{action}"));
    let own_deliveries = with_query(&view.tenant_path("/deliveries"), &[("subscription", &id)]);
    let is_paused = subscription.state == SubscriptionState::Paused;
    let content = html! {
        (summary(faults))
        @if view.may(Role::Admin) {
            @if is_paused {
                p { "Its deliveries wait. They are sent when you resume it." }
                form method="post" action=(path("/resume")) { (once(&view)) button { "Resume" } }
            } @else {
                form method="post" action=(path("/test")) { (once(&view)) button { "Send a test event" } }
                p.hint { "An event of the type " code { "webhook.test" } ", for this receiver alone." }
            }
        }
        dl {
            dt { "State" } dd { (state(&subscription)) }
            dt { "Events" } dd { (event_names(&subscription)) }
            dt { "Key" } dd { @if let Some(key) = &subscription.key { code { (key) } } @else { "-" } }
            @if let Some(until) = overlap { dt { "Old secret" } dd { "valid until " (time(until)) ": deliveries are signed with both secrets" } }
            dt { "Id" } dd { code data-copy { (id) } }
            dt { "Created" } dd { (time(subscription.created_at)) }
        }
        div data-refresh="10" {
            h2 { "Health" }
            (health_section(health.get(&subscription.id)))
            div.strip { (attempts(&day)) }
            p.hint { "Attempts of the last 24 hours, or since the URL was changed, at its newest " (HEALTH_DELIVERIES) " deliveries." }
            h2 { "Last deliveries" }
            (table(&view, &newest, slice::from_ref(&subscription), false))
        }
        p { a href=(own_deliveries) { "All its deliveries" } }
        @if view.may(Role::Admin) { (changes(&view, &subscription, faults)) }
    };
    Ok(layout::page_with(&view, faults.status(), &subscription.url, &content))
}

/// The forms that change a subscription.
fn changes(view: &View<'_>, subscription: &Subscription, faults: &Faults) -> Markup {
    let path = |action: &str| view.tenant_path(&format!("/webhooks/{}{action}", subscription.id));
    let url = "It is checked like that of a new subscription. Deliveries that wait go to the new URL. The signing secret stays.";
    html! {
        h2 { "Change the URL" }
        form method="post" action=(path("/url")) {
            (once(view))
            (input(Field { name: "url", label: "New URL of the receiver", hint: url }, "url", faults.value("url"), faults))
            button.plain { "Change the URL" }
        }
        h2 { "Change the event types" }
        form method="post" action=(path("/events")) {
            (once(view))
            (checkboxes(
                Field { name: "events", label: "Event types", hint: "Choose none to receive all." },
                &EVENT_TYPES, subscription.events.as_deref().unwrap_or_default(), &Faults::none()
            ))
            button.plain { "Change the event types" }
        }
        @if subscription.state != SubscriptionState::Paused {
            h2 { "Pause" }
            p { "While it is paused, its deliveries wait. None is lost." }
            form method="post" action=(path("/pause")) { (once(view)) button.plain { "Pause" } }
        }
        h2 { "Replace the signing secret" }
        @let overlap = Field { name: "overlap", label: "How long the old secret is used beside the new one", hint: "" };
        (rotation(view, &path("/rotate"), (overlap, &OVERLAPS), faults))
        h2 { "Remove" }
        p { "Its deliveries that wait or failed for good are dropped. This cannot be undone." }
        p { a.button.danger href=(path("/remove")) { "Remove the subscription" } }
    }
}

/// The share of attempts that succeeded, in whole percent.
const fn percent(health: &ReceiverHealth) -> i64 {
    if health.attempts == 0 { 0 } else { 100 * health.succeeded / health.attempts }
}

/// The class of a receiver: whether somebody should look at it.
const fn class(health: &ReceiverHealth) -> &'static str {
    match percent(health) {
        99.. => "good",
        90..99 => "warn",
        _ => "bad",
    }
}

/// The health of one receiver, on its page.
fn health_section(health: Option<&ReceiverHealth>) -> Markup {
    let Some(health) = health else {
        return html! { p { "Nothing was sent in the last 24 hours, or since the URL was changed. To see whether the receiver works, send a test event." } };
    };
    html! {
        ul.cards {
            li { strong class=(class(health)) { (health.succeeded) " of " (health.attempts) } (if health.attempts == 1 { "attempt" } else { "attempts" }) " succeeded" }
            @if let Some((median, slow)) = health.response_ms {
                li { strong { (median) " ms" } "median response time" }
                li { strong { (slow) " ms" } "95 % are faster" }
            } @else { li { strong { "-" } "no response came" } }
        }
        @if let Some((at, why)) = &health.last_failure {
            p { "Last failure " (time(*at)) ": " span.bad { (why) } }
        }
    }
}

/// The cells of a receiver in the list: share of successes, response time, last failure.
fn health_cells(health: Option<&ReceiverHealth>) -> Markup {
    let Some(health) = health else { return html! { td.number { "-" } td.number { "-" } td { "-" } } };
    html! {
        td.number { span class=(class(health)) { (percent(health)) " %" } }
        td.number { @if let Some((median, _)) = health.response_ms { (median) " ms" } @else { "-" } }
        td.long title=[health.last_failure.as_ref().map(|(_, why)| why)] {
            @if let Some((at, why)) = &health.last_failure { (why) ", " (time(*at)) } @else { "-" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;

    #[test]
    fn every_event_type_is_offered() {
        let names: Vec<_> = OutboundType::ALL.iter().map(|known| known.as_str()).collect();
        assert_eq!(EVENT_TYPES.map(|(name, _)| name).as_slice(), names);
    }

    fn health(succeeded: i64, attempts: i64) -> ReceiverHealth {
        let last_failure = Some((DateTime::UNIX_EPOCH, "timeout".to_owned()));
        ReceiverHealth { attempts, succeeded, response_ms: Some((30, 90)).filter(|_| succeeded > 0), last_failure }
    }

    #[test]
    fn a_receiver_is_judged_by_its_successful_attempts() {
        assert_eq!(class(&health(100, 100)), "good");
        assert_eq!((percent(&health(95, 100)), class(&health(95, 100))), (95, "warn"));
        assert_eq!((percent(&health(2, 4)), class(&health(2, 4))), (50, "bad"));
        let shown = health_section(Some(&health(2, 4))).into_string();
        assert!(shown.contains("2 of 4") && shown.contains("timeout") && shown.contains("90 ms"), "{shown}");
        let shown = health_section(Some(&health(0, 4))).into_string();
        assert!(shown.contains("no response came") && !shown.contains(" ms"), "{shown}");
        assert!(health_section(None).into_string().contains("Nothing was sent"));
    }
}
