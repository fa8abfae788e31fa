//! Creating and revoking API keys, and changing their scopes and secrets. A page shows a new secret once (D5).

use super::{SCOPES, samples, secret};
use crate::context::{Change, View};
use crate::failure::Failure;
use crate::fields::Fields;
use crate::format::time_text;
use crate::layout;
use crate::pages::form::{Faults, Field, checkboxes, confirmation, input, once, parse_rotation, select, summary};
use admin::AdminError;
use admin::input::{KeyScopes, Name, Origin};
use admin::keys::{self, NewKey};
use common::settings::SettingValue as _;
use maud::html;
use std::time::Duration;
use warp::reply::Response;

/// How long a key can be valid.
const LIFETIMES: [(&str, &str); 4] =
    [("", "never"), ("30d", "after 30 days"), ("90d", "after 90 days"), ("365d", "after a year")];

pub(crate) async fn offer(view: View<'_>) -> Result<Response, Failure> {
    let default = Fields::parse(b"scopes=events:ingest").unwrap_or_default();
    Ok(show(&view, &Faults::of_form(&default)))
}

fn show(view: &View<'_>, faults: &Faults) -> Response {
    let origin = "The system that uses the key, such as partner-site. Its webhooks leave out events that it has caused itself. Optional.";
    let scopes = faults.typed().map(|typed| typed.list("scopes")).unwrap_or_default();
    let form = html! {
        (summary(faults))
        form method="post" action=(view.tenant_path("/keys")) {
            (once(view))
            (input(Field { name: "name", label: "Name", hint: "Who uses the key, and for what." }, "text", faults.value("name"), faults))
            (checkboxes(Field { name: "scopes", label: "Scopes", hint: "Give a key only what its user needs." }, &SCOPES, &scopes, faults))
            (input(Field { name: "origin", label: "Origin", hint: origin }, "text", faults.value("origin"), faults))
            (select(Field { name: "expires", label: "Expires", hint: "" }, &LIFETIMES, faults.value("expires"), faults))
            div.actions { button { "Create the key" } a.button.plain href=(view.tenant_path("/keys")) { "Cancel" } }
        }
    };
    layout::page_with(view, faults.status(), "Create a key", &form)
}

pub(crate) async fn create(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let tenant = context.tenant()?;
    let mut faults = Faults::of_form(change.form());
    let Some(new) = parse(change.form(), &tenant.slug, &mut faults) else {
        return Ok(show(&change.view(), &faults));
    };
    const HEADING: &str = "The key was created";
    let (client, actor) = change.secret_operation(HEADING, context.tenant_path("/keys/{target}"));
    let created = keys::create(client, &actor, &context.app.master_keys, context.app.bounds.keys, &new).await?;
    let content = html! {
        (secret(&created.prefix, &created.secret, &tenant.slug))
        (samples::all(&samples::Sample {
            api_url: &context.app.api_url,
            slug: &tenant.slug,
            prefix: &created.prefix,
            secret: &created.secret,
            origin: new.origin.as_ref().map_or("partner", Origin::as_str),
            scopes: &new.scopes.names(),
        }))
        p { a href=(context.tenant_path(&format!("/keys/{}", created.prefix))) { "To the key" } }
    };
    Ok(layout::page(&change.view(), HEADING, &content))
}

fn parse(form: &Fields, slug: &str, faults: &mut Faults) -> Option<NewKey> {
    let name = faults.parse("name", Name::parse);
    let scopes = faults.check("scopes", KeyScopes::parse(&form.list("scopes")));
    let origin = form.optional("origin").map(|origin| faults.check("origin", Origin::parse(origin)));
    let expires = form.optional("expires").map(|text| {
        let parsed =
            Duration::parse_setting(text).map_err(|what| admin::AdminError::InvalidInput(format!("expiry {what}")));
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

pub(crate) async fn set_scopes(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let key = keys::find_in(change.client(), context.tenant()?.id, context.id()?).await?;
    let mut faults = Faults::of_form(change.form());
    let Some(scopes) = faults.check("scopes", KeyScopes::parse(&change.form().list("scopes"))) else {
        return super::with_faults(change.view(), &faults).await;
    };
    let page = context.tenant_path(&format!("/keys/{}?done=scopes", key.prefix));
    change.run(page, async |client, actor| keys::set_scopes(client, actor, &key.prefix, &scopes).await).await
}

/// Creates a new secret and shows it once.
pub(crate) async fn rotate(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let tenant = context.tenant()?;
    let key = keys::find_in(change.client(), tenant.id, context.id()?).await?;
    let mut faults = Faults::of_form(change.form());
    let Some(rotation) = parse_rotation(&mut faults) else {
        return super::with_faults(change.view(), &faults).await;
    };
    const HEADING: &str = "The secret was replaced";
    let (masters, page) = (&context.app.master_keys, context.tenant_path(&format!("/keys/{}", key.prefix)));
    let (client, actor) = change.secret_operation(HEADING, page.clone());
    let rotated = match keys::rotate_secret(client, &actor, masters, &key.prefix, rotation).await {
        Err(error @ AdminError::OverlapRuns(_)) => {
            faults.refused("replace", error)?;
            return super::with_faults(change.view(), &faults).await;
        }
        rotated => rotated?,
    };
    let content = html! {
        (secret(&rotated.prefix, &rotated.secret, &tenant.slug))
        @if rotation.overlap.is_some() {
            p { "The old secret is still accepted. End the overlap when nobody signs with it any more: the page of the key shows its last use." }
            p { a.button.plain href=(page) { "To the key" } }
        } @else {
            p { "The old secret is refused from now on. " a href=(page) { "To the key" } }
        }
    };
    Ok(layout::page(&change.view(), HEADING, &content))
}

/// Makes the old secret invalid.
pub(crate) async fn end_overlap(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let key = keys::find_in(change.client(), context.tenant()?.id, context.id()?).await?;
    let page = context.tenant_path(&format!("/keys/{}?done=overlap-ended", key.prefix));
    change.run(page, async |client, actor| keys::end_overlap(client, actor, &key.prefix).await).await
}

pub(crate) async fn confirm_revocation(view: View<'_>) -> Result<Response, Failure> {
    let key = keys::find_in(view.client(), view.tenant()?.id, view.id()?).await?;
    let page = view.tenant_path(&format!("/keys/{}", key.prefix));
    let question = html! {
        p {
            @match &key.last_used_at {
                Some(at) => strong { "The key was last used " (time_text(at)) ". " },
                None => "No use of the key is recorded. ",
            }
            "Requests that are signed with it will get 401 within a second. This cannot be undone."
        }
        @if !key.safe_to_revoke { p { "Somebody may still use it. Are you sure?" } }
    };
    let content = confirmation(&view, &format!("{page}/revoke"), "Revoke the key for good", &page, &question);
    Ok(layout::page(&view, &format!("Revoke {}?", key.name), &content))
}

pub(crate) async fn revoke(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let key = keys::find_in(change.client(), context.tenant()?.id, context.id()?).await?;
    let page = context.tenant_path(&format!("/keys/{}?done=revoked", key.prefix));
    change.run(page, async |client, actor| keys::revoke(client, actor, &key.prefix).await).await
}
