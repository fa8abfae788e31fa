//! Creating a subscription, after its receiver was checked (D27), changing, pausing (D24), testing and removing it.

use super::{EVENT_TYPES, secret};
use crate::context::{Change, View};
use crate::failure::Failure;
use crate::fields::Fields;
use crate::layout;
use crate::pages::form::{Faults, Field, checkboxes, confirmation, input, select, summary};
use crate::response::redirect;
use admin::deliveries::{self, Attempt, Delivery};
use admin::input::EventTypes;
use admin::subscriptions::{self, NewSubscription};
use admin::{AdminError, SilentObserver, keys};
use common::message::delivery_id;
use common::settings::SettingValue as _;
use hyper::StatusCode;
use maud::{Markup, html};
use std::time::Duration;
use uuid::Uuid;
use warp::reply::Response;

pub(crate) async fn offer(view: View<'_>) -> Result<Response, Failure> {
    show(&view, StatusCode::OK, &Fields::default(), &Faults::none()).await
}

async fn show(
    view: &View<'_>,
    status: StatusCode,
    typed: &Fields,
    faults: &Faults,
) -> Result<Response, Failure> {
    let keys = keys::list(view.client(), &view.tenant()?.slug).await?;
    let active = keys.iter().filter(|key| key.revoked_at.is_none());
    let texts: Vec<(String, String)> =
        active.map(|key| (key.prefix.clone(), format!("{} ({})", key.name, key.prefix))).collect();
    let mut options = vec![("", "none: all events of the agency")];
    options.extend(texts.iter().map(|(prefix, text)| (prefix.as_str(), text.as_str())));
    let form = form(view, typed, &options, faults);
    Ok(layout::page_with(view, status, "Create a subscription", &form))
}

fn form(view: &View<'_>, typed: &Fields, keys: &[(&str, &str)], faults: &Faults) -> Markup {
    let url = "The address of the receiver: https://, on the public internet. Private, loopback and link-local addresses are refused, \
        also when the host name resolves to one, unless the operator allows them for development; the address is checked again at every attempt.";
    let key = "The API key of the system that receives the webhooks: what the key's own calls have caused is not sent to it.";
    html! {
        (summary(faults))
        form method="post" action=(view.tenant_path("/webhooks")) {
            (input(Field { name: "url", label: "URL of the receiver", hint: url }, "url", typed.get("url"), faults))
            (checkboxes(Field { name: "events", label: "Event types", hint: "Choose none to receive all." }, &EVENT_TYPES, &typed.list("events"), faults))
            (select(Field { name: "key", label: "Key of the receiving system", hint: key }, keys, typed.get("key"), faults))
            div.actions { button { "Create the subscription" } a.button.plain href=(view.tenant_path("/webhooks")) { "Cancel" } }
        }
    }
}

pub(crate) async fn create(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let mut faults = Faults::none();
    let given = change.form().list("events");
    let events = if given.is_empty() {
        Some(None)
    } else {
        faults.check("events", EventTypes::parse(&given)).map(Some)
    };
    let Some(events) = events else { return refuse(&change, &faults).await };
    let new = NewSubscription {
        tenant: context.tenant()?.slug.clone(),
        url: change.form().get("url").to_owned(),
        key: change.form().optional("key").map(str::to_owned),
        events,
    };
    let (masters, egress) = (&context.app.master_keys, &context.app.egress);
    let (client, actor) = change.operation();
    let created = subscriptions::create(client, actor, masters, egress, &new, &mut SilentObserver).await;
    let created = match created {
        Ok(created) => created,
        Err(error) => {
            let field = if matches!(error, AdminError::KeyNotActive(_)) { "key" } else { "url" };
            faults.refused(field, error)?;
            return refuse(&change, &faults).await;
        }
    };
    let content = html! {
        (secret(&created.secret))
        p { a href=(context.tenant_path(&format!("/webhooks/{}", created.id))) { "To the subscription" } }
    };
    Ok(layout::page(&change.view(), "The subscription was created", &content))
}

async fn refuse(change: &Change<'_>, faults: &Faults) -> Result<Response, Failure> {
    show(&change.view(), StatusCode::UNPROCESSABLE_ENTITY, change.form(), faults).await
}

pub(crate) async fn set_events(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let found = subscriptions::find_in(change.client(), &context.tenant()?.slug, context.id()?).await?;
    let given = change.form().list("events");
    // The page offers a list, so another value was not chosen there.
    let events = (!given.is_empty()).then(|| EventTypes::parse(&given)).transpose();
    let events = events.map_err(|_| Failure::BadRequest("choose event types of the page"))?;
    let (client, actor) = change.operation();
    subscriptions::set_events(client, actor, &found.id.to_string(), events.as_ref()).await?;
    Ok(redirect(&context.tenant_path(&format!("/webhooks/{}?done=events", found.id))))
}

pub(crate) async fn pause(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let found = subscriptions::find_in(change.client(), &context.tenant()?.slug, context.id()?).await?;
    let (client, actor) = change.operation();
    subscriptions::pause(client, actor, &found.id.to_string()).await?;
    Ok(redirect(&context.tenant_path(&format!("/webhooks/{}?done=paused", found.id))))
}

pub(crate) async fn resume(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let found = subscriptions::find_in(change.client(), &context.tenant()?.slug, context.id()?).await?;
    let (client, actor) = change.operation();
    subscriptions::resume(client, actor, &found.id.to_string()).await?;
    Ok(redirect(&context.tenant_path(&format!("/webhooks/{}?done=resumed", found.id))))
}

pub(crate) async fn rotate(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let found = subscriptions::find_in(change.client(), &context.tenant()?.slug, context.id()?).await?;
    // The page offers a list, so another value was not chosen there.
    let overlap = change.form().optional("overlap").map(Duration::parse_setting).transpose();
    let overlap = overlap.map_err(|_| Failure::BadRequest("overlap must be a duration such as 24h"))?;
    let (masters, id) = (&context.app.master_keys, found.id.to_string());
    let (client, actor) = change.operation();
    let rotated = subscriptions::rotate_secret(client, actor, masters, &id, overlap).await?;
    let content = html! {
        (secret(&rotated.secret))
        p { a href=(context.tenant_path(&format!("/webhooks/{id}"))) { "To the subscription" } }
    };
    Ok(layout::page(&change.view(), "The signing secret was replaced", &content))
}

pub(crate) async fn confirm_removal(view: View<'_>) -> Result<Response, Failure> {
    let found = subscriptions::find_in(view.client(), &view.tenant()?.slug, view.id()?).await?;
    let page = view.tenant_path(&format!("/webhooks/{}", found.id));
    let question = html! {
        p { "Nothing more is sent to " code { (found.url) } ", and its pending and dead-lettered deliveries are dropped. This cannot be undone." }
        p { "To stop deliveries for a time without losing any, pause the subscription instead." }
    };
    let content =
        confirmation(&format!("{page}/remove"), "Remove the subscription for good", &page, &question);
    Ok(layout::page(&view, "Remove the subscription?", &content))
}

pub(crate) async fn remove(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let found = subscriptions::find_in(change.client(), &context.tenant()?.slug, context.id()?).await?;
    let (client, actor) = change.operation();
    subscriptions::remove(client, actor, &found.id.to_string()).await?;
    Ok(redirect(&context.tenant_path("/webhooks?done=removed")))
}

/// Seconds after which the page is loaded again while the event waits.
const REFRESH: u32 = 1;

pub(crate) async fn send_test(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let found = subscriptions::find_in(change.client(), &context.tenant()?.slug, context.id()?).await?;
    let (client, actor) = change.operation();
    let sent = subscriptions::send_test(client, actor, &found.id.to_string()).await?;
    Ok(redirect(&context.tenant_path(&format!("/webhooks/{}/test?event={}", found.id, sent.event))))
}

pub(crate) async fn test_result(view: View<'_>) -> Result<Response, Failure> {
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
