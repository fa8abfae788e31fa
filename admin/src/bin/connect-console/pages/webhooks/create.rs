//! Creating a subscription, after its receiver was checked (D27).

use super::{EVENT_TYPES, secret};
use crate::context::{Change, View};
use crate::failure::Failure;
use crate::fields::Fields;
use crate::layout;
use crate::pages::form::{Faults, Field, checkboxes, input, select, summary};
use admin::input::EventTypes;
use admin::subscriptions::{self, NewSubscription};
use admin::{AdminError, SilentObserver, keys};
use hyper::StatusCode;
use maud::{Markup, html};
use warp::reply::Response;

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
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
