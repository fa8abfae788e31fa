//! A delivery with its attempts.

use super::state;
use crate::context::View;
use crate::failure::Failure;
use crate::format::{time, time_or};
use crate::layout;
use admin::console::Role;
use admin::deliveries::{self, Attempt, Delivery};
use common::model::{DeliveryState, TenantId};
use maud::{Markup, html};
use tokio_postgres::Client;
use warp::reply::Response;

/// The delivery with this id, if it belongs to the tenant.
pub(super) async fn find(client: &Client, tenant: TenantId, id: &str) -> Result<Delivery, Failure> {
    let delivery = deliveries::find(client, id).await?;
    if delivery.tenant == tenant { Ok(delivery) } else { Err(Failure::NotFound) }
}

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let delivery = find(view.client(), view.tenant()?.id, view.id()?).await?;
    let envelope = deliveries::envelope(view.client(), delivery.tenant, delivery.event_id).await?;
    let can_replay = matches!(delivery.state, DeliveryState::DeadLettered | DeliveryState::Delivered);
    let content = html! {
        (facts(&view, &delivery))
        @if can_replay && view.may(Role::Admin) {
            form method="post" action=(view.tenant_path(&format!("/deliveries/{}/replay", delivery.id))) {
                button { "Send it again" }
                p.hint { "With the same event id and delivery id: a receiver that got it before recognizes it." }
            }
        }
        h2 { "Attempts" }
        @if delivery.attempts.is_empty() { p { "There was no attempt yet." } }
        @for (number, attempt) in (1..).zip(&delivery.attempts) { (attempt_section(number, attempt)) }
        h2 { "Body" }
        @match envelope {
            Some(envelope) if view.may(Role::Admin) => { pre role="group" aria-label="Body" tabindex="0" { code { (envelope) } } }
            Some(_) => { p { "Only administrators see the body, because it contains contact data." } }
            None => { p { "The event is no longer stored." } }
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
