//! Creating a subscription, after its receiver was checked (D27), changing, pausing (D24), testing and removing it.

use super::{EVENT_TYPES, secret};
use crate::context::{Change, Context, RequestSteps, View};
use crate::failure::Failure;
use crate::layout;
use crate::pages::form::{Faults, Field, checkboxes, confirmation, input, once, parse_rotation, select, summary};
use admin::audit::Actor;
use admin::deliveries::{self, Attempt, Delivery};
use admin::input::EventTypes;
use admin::keys::KeyFilter;
use admin::subscriptions::{self, CheckedReceiver, NewSubscription, Subscription, check_receiver};
use admin::{AdminError, describe, keys};
use common::egress::LOOK_UP_OWNER;
use common::limited;
use common::log_limit::LogLimit;
use common::message::delivery_id;
use maud::{Markup, html};
use tokio_postgres::Client;
use uuid::Uuid;
use warp::reply::Response;

/// Bounds the log lines of refused receivers.
static REFUSED: LogLimit<1> = LogLimit::new();

pub(crate) async fn offer(view: View<'_>) -> Result<Response, Failure> {
    show(&view, &Faults::none()).await
}

async fn show(view: &View<'_>, faults: &Faults) -> Result<Response, Failure> {
    let active = KeyFilter { is_revoked: Some(false), ..KeyFilter::default() };
    let keys = keys::list(view.client(), &view.tenant()?.slug, active, u32::MAX).await?.items;
    let texts: Vec<(String, String)> =
        keys.iter().map(|key| (key.prefix.clone(), format!("{} ({})", key.name, key.prefix))).collect();
    let mut options = vec![("", "none: all events of the agency")];
    options.extend(texts.iter().map(|(prefix, text)| (prefix.as_str(), text.as_str())));
    let form = form(view, &options, faults);
    Ok(layout::page_with(view, faults.status(), "Create a subscription", &form))
}

fn form(view: &View<'_>, keys: &[(&str, &str)], faults: &Faults) -> Markup {
    let events = faults.typed().map(|typed| typed.list("events")).unwrap_or_default();
    let url = "The address of the receiver: https://, on the public internet. Private, loopback and link-local addresses are refused, \
        also when the host name resolves to one, unless the operator allows them for development; the address is checked again at every attempt.";
    let key =
        "The API key of the system that receives the webhooks: what the key's own calls have caused is not sent to it.";
    html! {
        (summary(faults))
        form method="post" action=(view.tenant_path("/webhooks")) {
            (once(view))
            (input(Field { name: "url", label: "URL of the receiver", hint: url }, "url", faults.value("url"), faults))
            (checkboxes(Field { name: "events", label: "Event types", hint: "Choose none to receive all." }, &EVENT_TYPES, &events, faults))
            (select(Field { name: "key", label: "Key of the receiving system", hint: key }, keys, faults.value("key"), faults))
            div.actions { button { "Create the subscription" } a.button.plain href=(view.tenant_path("/webhooks")) { "Cancel" } }
        }
    }
}

/// Checks the URL of a form. Without a receiver it is a fault of the form.
async fn check<'c>(change: Change<'c>, faults: &mut Faults) -> Result<(Change<'c>, Option<CheckedReceiver>), Failure> {
    let context = change.context();
    let (app, tenant, url) = (context.app, context.tenant()?, change.form().get("url").to_owned());
    let check = async {
        let _under_way = app.receiver_checks.enter(&tenant.slug).await?;
        Ok::<_, Failure>(LOOK_UP_OWNER.scope(tenant.id.0, check_receiver(&url, &app.egress)).await)
    };
    let (change, checked) = change.without_database(check).await?;
    let receiver = match checked? {
        Ok(receiver) => Some(receiver),
        Err(error) => {
            if let AdminError::ReceiverNotPublic { .. } = error {
                let (request_id, error) = (context.request.id, describe(&error));
                limited!(REFUSED[0], warn, %request_id, error, "receiver of a subscription refused; responding 422");
            }
            faults.refused("url", error)?;
            None
        }
    };
    Ok((change, receiver))
}

pub(crate) async fn create(change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let mut faults = Faults::of_form(change.form());
    let given = change.form().list("events");
    let events =
        if given.is_empty() { Some(None) } else { faults.check("events", EventTypes::parse(&given)).map(Some) };
    let Some(events) = events else { return show(&change.view(), &faults).await };
    let (app, slug) = (context.app, &context.tenant()?.slug);
    let (mut change, checked) = check(change, &mut faults).await?;
    let Some(receiver) = checked else { return show(&change.view(), &faults).await };
    let key = change.form().optional("key").map(str::to_owned);
    let new = NewSubscription { tenant: slug.clone(), receiver, key, events };
    let (masters, bound) = (&app.master_keys, app.bounds.subscriptions);
    const HEADING: &str = "The subscription was created";
    let (client, actor) = change.secret_operation(HEADING, context.tenant_path("/webhooks/{target}"));
    let created = subscriptions::create(client, &actor, masters, bound, &new).await;
    let created = match created {
        Ok(created) => created,
        Err(error) => {
            let field = if matches!(error, AdminError::KeyNotActive(_)) { "key" } else { "url" };
            faults.refused(field, error)?;
            return show(&change.view(), &faults).await;
        }
    };
    let content = html! {
        (secret(&created.secret))
        form method="post" action=(context.tenant_path(&format!("/webhooks/{}/test", created.id))) {
            (once(&context))
            button { "Send a test event" }
        }
        p { a href=(context.tenant_path(&format!("/webhooks/{}", created.id))) { "To the subscription" } }
        (verification_samples(&created.secret))
    };
    Ok(layout::page(&change.view(), HEADING, &content))
}

/// The path of a page of a subscription, `below` its own.
fn page(context: &Context<'_>, subscription: &Subscription, below: &str) -> String {
    context.tenant_path(&format!("/webhooks/{}{below}", subscription.id))
}

pub(crate) async fn set_events(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let found = subscriptions::find_in(change.client(), &context.tenant()?.slug, context.id()?).await?;
    let given = change.form().list("events");
    // The page offers a list, so another value was not chosen there.
    let events = (!given.is_empty()).then(|| EventTypes::parse(&given)).transpose();
    let events = events.map_err(|_| Failure::BadRequest("choose event types of the page"))?;
    let page = page(&context, &found, "?done=events");
    let set = async |client: &mut Client, actor: &Actor| {
        subscriptions::set_events(client, actor, found.id, events.as_ref()).await
    };
    change.run(page, set).await
}

/// Replaces the URL, after it was checked like that of a new subscription.
pub(crate) async fn set_url(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let found = subscriptions::find_in(change.client(), &context.tenant()?.slug, context.id()?).await?;
    let mut faults = Faults::of_form(change.form());
    let (change, checked) = check(change, &mut faults).await?;
    let Some(receiver) = checked else { return super::with_faults(change.view(), &faults).await };
    let page = page(&context, &found, "?done=url");
    let set = async |client: &mut Client, actor: &Actor| {
        subscriptions::set_url(client, actor, &context.app.master_keys, found.id, &receiver).await
    };
    change.run(page, set).await
}

pub(crate) async fn pause(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let found = subscriptions::find_in(change.client(), &context.tenant()?.slug, context.id()?).await?;
    let page = page(&context, &found, "?done=paused");
    change.run(page, async |client, actor| subscriptions::pause(client, actor, found.id).await).await
}

pub(crate) async fn resume(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let found = subscriptions::find_in(change.client(), &context.tenant()?.slug, context.id()?).await?;
    let page = page(&context, &found, "?done=resumed");
    change.run(page, async |client, actor| subscriptions::resume(client, actor, found.id).await).await
}

pub(crate) async fn rotate(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let found = subscriptions::find_in(change.client(), &context.tenant()?.slug, context.id()?).await?;
    let mut faults = Faults::of_form(change.form());
    let Some(rotation) = parse_rotation(&mut faults) else {
        return super::with_faults(change.view(), &faults).await;
    };
    const HEADING: &str = "The signing secret was replaced";
    let (masters, page) = (&context.app.master_keys, page(&context, &found, ""));
    let (client, actor) = change.secret_operation(HEADING, page.clone());
    let rotated = match subscriptions::rotate_secret(client, &actor, masters, found.id, rotation).await {
        Err(AdminError::OverlapRuns(until)) => {
            faults.add("replace", until);
            return super::with_faults(change.view(), &faults).await;
        }
        rotated => rotated?,
    };
    let content = html! {
        (secret(&rotated.secret))
        @if rotation.overlap.is_some() { p { "Webhooks are also signed with the secret that this one replaces, until the time that the page of the subscription shows." } }
        p { a href=(page) { "To the subscription" } }
    };
    Ok(layout::page(&change.view(), HEADING, &content))
}

pub(crate) async fn confirm_removal(view: View<'_>) -> Result<Response, Failure> {
    let found = subscriptions::find_in(view.client(), &view.tenant()?.slug, view.id()?).await?;
    let page = view.tenant_path(&format!("/webhooks/{}", found.id));
    let question = html! {
        p { "Nothing more is sent to " code { (found.url) } ", and its deliveries that wait or failed for good are dropped. This cannot be undone." }
        p { "To stop deliveries for a time without losing any, pause the subscription instead." }
    };
    let content = confirmation(&view, &format!("{page}/remove"), "Remove the subscription for good", &page, &question);
    Ok(layout::page(&view, "Remove the subscription?", &content))
}

pub(crate) async fn remove(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let found = subscriptions::find_in(change.client(), &context.tenant()?.slug, context.id()?).await?;
    let page = context.tenant_path("/webhooks?done=removed");
    let remove = async |database: &mut RequestSteps<'_>, actor: &Actor| {
        subscriptions::remove(database, actor, found.id).await?;
        Ok(())
    };
    change.run_in_steps(page, remove).await
}

/// Seconds after which the page is loaded again while the event waits.
const REFRESH: u32 = 1;

pub(crate) async fn send_test(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let found = subscriptions::find_in(change.client(), &context.tenant()?.slug, context.id()?).await?;
    let event = Uuid::now_v7();
    let page = page(&context, &found, &format!("/test?event={event}"));
    change.run(page, async |client, actor| subscriptions::send_test(client, actor, found.id, event).await).await
}

pub(crate) async fn test_result(view: View<'_>) -> Result<Response, Failure> {
    let tenant = view.tenant()?;
    let subscription = subscriptions::find_in(view.client(), &tenant.slug, view.id()?).await?;
    let event = Uuid::try_parse(view.request.query.get("event")).map_err(|_| Failure::NotFound)?;
    let id = delivery_id(event, subscription.id).to_string();
    let delivery = match deliveries::find(view.client(), &id, view.sees_contacts()).await {
        Ok(delivery) => Some(view.shown(delivery)).filter(|delivery| delivery.tenant == tenant.id),
        // Its row is written when its first attempt has ended.
        Err(AdminError::DeliveryNotFound(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let back =
        html! { p { a href=(view.tenant_path(&format!("/webhooks/{}", subscription.id))) { "To the subscription" } } };
    let attempt = delivery.as_ref().and_then(|delivery| delivery.attempts.first());
    let (Some(delivery), Some(attempt)) = (&delivery, attempt) else {
        let content = html! {
            p role="status" { "The test event is on its way to " code { (subscription.url) } "." }
            p.hint { "If this page does not change within half a minute, and the subscription is not paused, tell your operator. The event is not lost." }
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
        ("bad", "The receiver did not accept the test event. Correct it, and send another one: a test is not repeated.")
    };
    html! {
        p role="status" { span class=(class) { (text) } }
        dl {
            dt { "Result" } dd { (attempt.outcome()) }
            dt { "Duration" } dd { (attempt.duration_ms) " ms" }
            @if let Some(response) = attempt.response.as_ref().filter(|text| !attempt.is_success() && !text.is_empty()) { dt { "Response" } dd { pre.wrapped { code { (response) } } } }
            dt { "Delivery" } dd { a href=(view.tenant_path(&format!("/deliveries/{}", delivery.id))) { code { (delivery.id) } } }
        }
    }
}

/// The document whose functions verify webhooks.
const INTEGRATORS: &str = include_str!("../../../../../../docs/integrators.md");

/// Code that verifies webhooks with a new secret, in three languages: the secret, and the function of the document. A secret consists
/// of characters of base64, so that it cannot end a quotation.
fn verification_samples(secret: &str) -> Markup {
    let samples = [
        ("Python 3", "python", format!("SECRET = \"{secret}\"\n\n")),
        ("Node 18 or later", "js", format!("const SECRET = \"{secret}\";\n\n")),
        (
            "PHP 8",
            "php",
            format!(
                "<?php\n// $header: $_SERVER['HTTP_X_CONNECT_SIGNATURE'] ?? '', $body: file_get_contents('php://input')\n\
                 const SECRET = '{secret}';\n\n"
            ),
        ),
    ];
    html! {
        h2 { "Verify a webhook" }
        p {
            "Call " code { "verify" } " with the secret, the header " code { "X-Connect-Signature" } " and the raw body, before anything parses it. "
            "Then respond with a 2xx within 10 seconds, and ignore an event id that you have seen."
        }
        @for (name, language, secret) in samples {
            h3 { (name) }
            pre role="group" aria-label="Sample" tabindex="0" { code data-copy { (secret) (verifier(language)) } }
        }
    }
}

/// The function of the document in this language.
fn verifier(language: &str) -> &'static str {
    let section = INTEGRATORS.split("\n## Receive webhooks\n").nth(1).unwrap_or_default();
    let code = section.split(&format!("```{language}\n")).nth(1).unwrap_or_default();
    code.split("```").next().unwrap_or_default().trim_end()
}
