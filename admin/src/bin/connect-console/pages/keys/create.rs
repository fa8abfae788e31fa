//! Creating a key. Its secret is shown once, with samples that use it.

use super::{SCOPES, samples, secret};
use crate::context::{Change, View};
use crate::failure::Failure;
use crate::fields::Fields;
use crate::layout;
use crate::pages::form::{Faults, Field, checkboxes, input, select, summary};
use admin::input::{KeyScopes, Name, Origin};
use admin::keys::{self, NewKey};
use common::settings::SettingValue as _;
use hyper::StatusCode;
use maud::{Markup, html};
use std::time::Duration;
use warp::reply::Response;

/// How long a key can be valid.
const LIFETIMES: [(&str, &str); 4] =
    [("", "never"), ("30d", "after 30 days"), ("90d", "after 90 days"), ("365d", "after a year")];

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let default = Fields::parse(b"scopes=events:ingest").unwrap_or_default();
    Ok(layout::page(&view, "Create a key", &form(&view, &default, &Faults::none())))
}

fn form(view: &View<'_>, typed: &Fields, faults: &Faults) -> Markup {
    let origin = "The system that uses the key, such as partner-site. Its webhooks leave out events that it has caused itself. Optional.";
    html! {
        (summary(faults))
        form method="post" action=(view.tenant_path("/keys")) {
            (input(Field { name: "name", label: "Name", hint: "Who uses the key, and for what." }, "text", typed.get("name"), faults))
            (checkboxes(Field { name: "scopes", label: "Scopes", hint: "Give a key only what its user needs." }, &SCOPES, &typed.list("scopes"), faults))
            (input(Field { name: "origin", label: "Origin", hint: origin }, "text", typed.get("origin"), faults))
            (select(Field { name: "expires", label: "Expires", hint: "" }, &LIFETIMES, typed.get("expires"), faults))
            div.actions { button { "Create the key" } a.button.plain href=(view.tenant_path("/keys")) { "Cancel" } }
        }
    }
}

pub(crate) async fn create(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let tenant = context.tenant()?;
    let mut faults = Faults::none();
    let Some(new) = parse(change.form(), &tenant.slug, &mut faults) else {
        let view = change.view();
        let form = form(&view, change.form(), &faults);
        return Ok(layout::page_with(&view, StatusCode::UNPROCESSABLE_ENTITY, "Create a key", &form));
    };
    let (client, actor) = change.operation();
    let created = keys::create(client, actor, &context.app.master_keys, &new).await?;
    let content = html! {
        (secret(&created.prefix, &created.secret, &tenant.slug))
        (samples::all(&samples::Sample {
            api_url: &context.app.api_url,
            slug: &tenant.slug,
            prefix: &created.prefix,
            secret: &created.secret,
            origin: new.origin.as_ref().map_or("partner", Origin::as_str),
        }))
        p { a href=(context.tenant_path(&format!("/keys/{}", created.prefix))) { "To the key" } }
    };
    Ok(layout::page(&change.view(), "The key was created", &content))
}

fn parse(form: &Fields, slug: &str, faults: &mut Faults) -> Option<NewKey> {
    let name = faults.check("name", Name::parse(form.get("name")));
    let scopes = faults.check("scopes", KeyScopes::parse(&form.list("scopes")));
    let origin = form.optional("origin").map(|origin| faults.check("origin", Origin::parse(origin)));
    let expires = form.optional("expires").map(|text| {
        let parsed = Duration::parse_setting(text)
            .map_err(|what| admin::AdminError::InvalidInput(format!("expiry {what}")));
        faults.check("expires", parsed)
    });
    Some(NewKey {
        tenant: slug.to_owned(),
        name: name?,
        scopes: scopes?,
        origin: origin.map_or(Some(None), |origin| origin.map(Some))?,
        expires_in: expires.map_or(Some(None), |expires| expires.map(Some))?,
    })
}
