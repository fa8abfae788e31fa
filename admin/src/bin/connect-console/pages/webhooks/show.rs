//! A subscription, with the health of its receiver and everything that can be done with it.

use super::{EVENT_TYPES, event_names, health, state};
use crate::context::View;
use crate::failure::Failure;
use crate::fields::with_query;
use crate::format::time;
use crate::layout;
use crate::pages::form::{Faults, Field, checkboxes, select};
use admin::console::Role;
use admin::subscriptions::{self, SubscriptionState};
use maud::html;
use warp::reply::Response;

/// How long an old secret can be used beside the new one.
const OVERLAPS: [(&str, &str); 3] = [
    ("24h", "24 hours: deliveries are signed with both secrets"),
    ("7d", "7 days: deliveries are signed with both secrets"),
    ("", "none: the old secret is not used any more"),
];

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let tenant = view.tenant()?;
    let subscription = subscriptions::find_in(view.client(), &tenant.slug, view.id()?).await?;
    let id = subscription.id.to_string();
    let health = subscriptions::health(view.client(), tenant.id, &[subscription.id]).await?;
    let path = |action: &str| view.tenant_path(&format!("/webhooks/{id}{action}"));
    let own_deliveries = with_query(&view.tenant_path("/deliveries"), &[("subscription", &id)]);
    let is_paused = subscription.state == SubscriptionState::Paused;
    let content = html! {
        dl {
            dt { "Receiver" } dd { code { (subscription.url) } }
            dt { "State" } dd { (state(&subscription)) }
            dt { "Events" } dd { (event_names(&subscription)) }
            dt { "Key" } dd { @if let Some(key) = &subscription.key { code { (key) } } @else { "-" } }
            dt { "Id" } dd { code { (id) } }
            dt { "Created" } dd { (time(subscription.created_at)) }
        }
        h2 { "Health" }
        (health::show(health.get(&subscription.id)))
        p { a href=(own_deliveries) { "Its deliveries" } }
        @if view.may(Role::Admin) {
            h2 { "Test" }
            @if is_paused {
                p { "Resume the subscription to test it." }
            } @else {
                p { "Sends an event of the type " code { "webhook.test" } " to this receiver alone." }
                form method="post" action=(path("/test")) { button { "Send a test event" } }
            }
            h2 { "Change the event types" }
            form method="post" action=(path("/events")) {
                (checkboxes(
                    Field { name: "events", label: "Event types", hint: "Choose none to receive all." },
                    &EVENT_TYPES, subscription.events.as_deref().unwrap_or_default(), &Faults::none()
                ))
                button { "Change the event types" }
            }
            h2 { (if is_paused { "Resume" } else { "Pause" }) }
            @if is_paused {
                p { "Its deliveries wait. They are sent when you resume it." }
                form method="post" action=(path("/resume")) { button { "Resume" } }
            } @else {
                p { "While it is paused, its deliveries wait. None is lost." }
                form method="post" action=(path("/pause")) { button { "Pause" } }
            }
            h2 { "Replace the signing secret" }
            form method="post" action=(path("/rotate")) {
                (select(
                    Field { name: "overlap", label: "How long the old secret is used beside the new one", hint: "" },
                    &OVERLAPS, "24h", &Faults::none()
                ))
                button { "Create a new secret" }
            }
            h2 { "Remove" }
            p { "Pending and dead-lettered deliveries are dropped. This cannot be undone." }
            p { a.button.danger href=(path("/remove")) { "Remove the subscription" } }
        }
    };
    Ok(layout::page(&view, "Subscription", &content))
}
