//! Sending a test event to a subscription, and the result of its first attempt.

use crate::context::{Change, View};
use crate::failure::Failure;
use crate::layout;
use crate::response::redirect;
use admin::AdminError;
use admin::deliveries::{self, Attempt, Delivery};
use admin::subscriptions;
use common::message::delivery_id;
use maud::{Markup, html};
use uuid::Uuid;
use warp::reply::Response;

/// Seconds after which the page is loaded again while the event waits.
const REFRESH: u32 = 1;

pub(crate) async fn send(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let found = subscriptions::find_in(change.client(), &context.tenant()?.slug, context.id()?).await?;
    let (client, actor) = change.operation();
    let sent = subscriptions::send_test(client, actor, &found.id.to_string()).await?;
    Ok(redirect(&context.tenant_path(&format!("/webhooks/{}/test?event={}", found.id, sent.event))))
}

pub(crate) async fn result(view: View<'_>) -> Result<Response, Failure> {
    let tenant = view.tenant()?;
    let subscription = subscriptions::find_in(view.client(), &tenant.slug, view.id()?).await?;
    let event = Uuid::try_parse(view.request.query.get("event")).map_err(|_| Failure::NotFound)?;
    let id = delivery_id(event, subscription.id).to_string();
    let delivery = match deliveries::find(view.client(), &id).await {
        Ok(delivery) => Some(delivery).filter(|delivery| delivery.tenant == tenant.id),
        // Its row is written when its first attempt has ended.
        Err(AdminError::DeliveryNotFound(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let back = html! { p { a href=(view.tenant_path(&format!("/webhooks/{}", subscription.id))) { "To the subscription" } } };
    let attempt = delivery.as_ref().and_then(|delivery| delivery.attempts.first());
    let (Some(delivery), Some(attempt)) = (&delivery, attempt) else {
        let content = html! {
            p role="status" { "The test event is on its way to " code { (subscription.url) } "." }
            p.hint { "If this page does not change within half a minute, check that a dispatcher is running and that the subscription is not paused. The event is not lost." }
            (back)
        };
        return Ok(layout::page_refreshing(&view, "Test event", REFRESH, &content));
    };
    let content = html! { (outcome(&view, delivery, attempt)) (back) };
    Ok(layout::page(&view, "Test event", &content))
}

fn outcome(view: &View<'_>, delivery: &Delivery, attempt: &Attempt) -> Markup {
    let (class, text) = if attempt.is_success() {
        ("good", "The receiver accepted the test event.")
    } else {
        ("bad", "The receiver did not accept the test event. It is sent again like any other.")
    };
    html! {
        p role="status" { span class=(class) { (text) } }
        dl {
            dt { "Result" } dd { (attempt.outcome()) }
            dt { "Duration" } dd { (attempt.duration_ms) " ms" }
            dt { "Delivery" } dd { a href=(view.tenant_path(&format!("/deliveries/{}", delivery.id))) { code { (delivery.id) } } }
        }
    }
}
