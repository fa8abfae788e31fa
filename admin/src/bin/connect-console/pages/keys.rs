//! API keys: those of an agency, one with everything that can be done with it, and what is done with it. A page shows a new secret
//! once (D5).

mod samples;

use crate::context::{Change, View};
use crate::failure::Failure;
use crate::fields::{Fields, with_query};
use crate::format::{captioned_table, number, time_or, time_text};
use crate::layout;
use crate::pages::filter::older;
use crate::pages::form::{
    Faults, Field, checkboxes, confirmation, input, once, parse_rotation, rotation, select, summary,
};
use admin::AdminError;
use admin::console::Role;
use admin::input::{KeyScopes, Name, Origin};
use admin::keys::{self, Key, KeyFilter, NewKey, SecretUse};
use common::model::Scope;
use common::settings::SettingValue as _;
use maud::{Markup, html};
use std::time::Duration;
use warp::reply::Response;

/// The scopes with what they permit, for forms.
const SCOPES: [(&str, &str); 7] = [
    (Scope::EventsIngest.as_str(), "send events"),
    (Scope::ClientsRead.as_str(), "read and look up clients"),
    (Scope::ClientsWrite.as_str(), "create and update clients"),
    (Scope::LeadsRead.as_str(), "read enquiries and trips"),
    (Scope::LeadsWrite.as_str(), "create and change enquiries and trips"),
    (Scope::CreditWrite.as_str(), "send the two credit events, in addition to events:ingest"),
    (Scope::WebhooksRead.as_str(), "read the webhooks of the key's subscription"),
];

/// How long an old secret can stay valid, for forms.
const OVERLAPS: [(&str, &str); 4] = [
    ("24h", "24 hours: signatures with both secrets are accepted"),
    ("7d", "7 days: signatures with both secrets are accepted"),
    ("30d", "30 days: signatures with both secrets are accepted"),
    ("", "none: the old secret is refused within a second"),
];

/// A new secret, which this page alone shows.
fn secret(prefix: &str, secret: &str, slug: &str) -> Markup {
    html! {
        div.secret {
            p { strong { "Copy the secret now. It is shown once and cannot be read again." } }
            dl {
                dt { "Key" } dd { code data-copy { (prefix) } }
                dt { "Secret" } dd { code data-copy { (secret) } }
                dt { "Agency" } dd { code { (slug) } }
            }
        }
    }
}

/// Keys of a page.
const PAGE: u32 = 100;

pub(crate) async fn list(view: View<'_>) -> Result<Response, Failure> {
    let query = &view.request.query;
    let is_revoked = query.get("state") == "revoked";
    let filter = KeyFilter { is_revoked: Some(is_revoked), before: query.optional("before") };
    let listed = view.shown(keys::list(view.client(), &view.tenant()?.slug, filter, PAGE).await?);
    let base = with_query(&view.tenant_path("/keys"), &[("state", if is_revoked { "revoked" } else { "" })]);
    let next = listed.items.first().filter(|_| listed.is_cut).map(|key| key.prefix.as_str());
    let content = html! {
        @if view.may(Role::Admin) {
            p { a.button href=(view.tenant_path("/keys/new")) { "Create a key" } }
        }
        @if !listed.items.is_empty() {
            (table(&view, if is_revoked { "Revoked keys" } else { "Active keys" }, &listed.items))
        } @else if is_revoked {
            p { "There is no revoked key." }
        } @else {
            p { "There is no active key. Partners sign their requests with a key: create one and hand over its secret." }
        }
        (older(&base, next))
        @if is_revoked { p { a href=(view.tenant_path("/keys")) { "Active keys" } } }
        @else { p { a href=(view.tenant_path("/keys?state=revoked")) { "Revoked keys" } } }
    };
    Ok(layout::page(&view, "API keys", &content))
}

fn table(view: &View<'_>, caption: &str, keys: &[Key]) -> Markup {
    html! {
        div.lines { (captioned_table(caption, &["Name", "Key", "~Scopes", "Accepted, last day", "Refused, last day",
            "Last use", "Expires"], &html! {
            @for key in keys.iter().rev() {
                tr {
                    th scope="row" { a href=(view.tenant_path(&format!("/keys/{}", key.prefix))) { bdi { (key.name) } } }
                    td { code { (key.prefix) } }
                    td.long title=(key.scopes.join(", ")) { (key.scopes.join(", ")) }
                    td { (number(key.requests_last_day.accepted)) }
                    td { (refused(view, key)) }
                    td { (time_or(key.last_used_at.as_deref(), "not used")) }
                    td { (time_or(key.expires_at.as_deref(), "never")) }
                }
            }
        })) }
    }
}

/// The number of refused requests, with a link to why.
pub(super) fn refused(view: &View<'_>, key: &Key) -> Markup {
    let count = key.requests_last_day.refused;
    html! {
        @if count == 0 { "0" } @else {
            a href=(with_query(&view.tenant_path("/refusals"), &[("key", &key.prefix)])) { (number(count)) }
        }
    }
}

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    with_faults(view, &Faults::none()).await
}

/// The page, with the faults of a submitted form and what was typed there.
async fn with_faults(view: View<'_>, faults: &Faults) -> Result<Response, Failure> {
    let key = view.shown(keys::find_in(view.client(), view.tenant()?.id, view.id()?).await?);
    let path = |action: &str| view.tenant_path(&format!("/keys/{}{action}", key.prefix));
    let content = html! {
        (facts(&view, &key))
        @if key.revoked_at.is_none() && view.may(Role::Admin) {
            h2 { "Scopes" }
            form method="post" action=(path("/scopes")) {
                (once(&view))
                (checkboxes(
                    Field { name: "scopes", label: "What the key permits", hint: "Running programs apply the change within a second." },
                    &SCOPES, &faults.typed().map_or_else(|| key.scopes.clone(), |typed| typed.list("scopes")), faults
                ))
                button { "Change the scopes" }
            }
            h2 { "Replace the secret" }
            @let overlap = Field { name: "overlap", label: "How long the old secret stays valid", hint: "The user of the key switches to the new secret during this time." };
            (rotation(&view, &path("/rotate"), (overlap, &OVERLAPS), faults))
            @if key.secrets.len() > 1 {
                form method="post" action=(path("/end-overlap")) {
                    (once(&view))
                    button.danger { "End the overlap now" }
                    p.hint { "The old secret is refused within a second." }
                }
            }
            h2 { "Revoke the key" }
            p { "A revoked key is refused within a second. This cannot be undone." }
            p { a.button.danger href=(path("/revoke")) { "Revoke the key" } }
        }
    };
    Ok(layout::page_with(&view, faults.status(), &key.name, &content))
}

fn facts(view: &View<'_>, key: &Key) -> Markup {
    html! {
        dl {
            dt { "Key" } dd { code data-copy { (key.prefix) } }
            dt { "Scopes" } dd { (key.scopes.join(", ")) }
            dt { "Origin" } dd { (key.origin.as_deref().unwrap_or("-")) }
            dt { "Created" } dd { (time_text(&key.created_at)) }
            dt { "Last use" } dd { (time_or(key.last_used_at.as_deref(), "no use recorded")) }
            dt { "Requests in the last 24 hours" }
            dd { (number(key.requests_last_day.accepted)) " accepted, " (refused(view, key)) " refused" }
            dt { "Expires" } dd { (time_or(key.expires_at.as_deref(), "never")) }
            @if let Some(revoked) = &key.revoked_at { dt { "Revoked" } dd.bad { (time_text(revoked)) } }
        }
        p { a href=(with_query(&view.tenant_path("/refusals"), &[("key", &key.prefix)])) { "Why requests with this key were refused" } }
        @if key.revoked_at.is_none() {
            (captioned_table(
                "Secrets. One that was not used for seven days is safe to revoke.",
                &["Secret", "Last use", "Valid until", "Safe to revoke"],
                &html! { @for secret in &key.secrets { (secret_row(secret)) } }
            ))
        }
    }
}

fn secret_row(secret: &SecretUse) -> Markup {
    html! {
        tr {
            th scope="row" { (if secret.current { "current" } else { "old" }) }
            td { (time_or(secret.last_used_at.as_deref(), "not used")) }
            td { (time_or(secret.valid_until.as_deref(), "-")) }
            td { (if secret.safe_to_revoke { "yes" } else { "no" }) }
        }
    }
}

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
        let parsed = Duration::parse_setting(text).map_err(|what| AdminError::InvalidInput(format!("expiry {what}")));
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
        return with_faults(change.view(), &faults).await;
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
        return with_faults(change.view(), &faults).await;
    };
    const HEADING: &str = "The secret was replaced";
    let (masters, page) = (&context.app.master_keys, context.tenant_path(&format!("/keys/{}", key.prefix)));
    let (client, actor) = change.secret_operation(HEADING, page.clone());
    let rotated = match keys::rotate_secret(client, &actor, masters, &key.prefix, rotation).await {
        Err(AdminError::OverlapRuns(until)) => {
            faults.add("replace", until);
            return with_faults(change.view(), &faults).await;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scope_is_offered() {
        assert_eq!(SCOPES.map(|(name, _)| name), Scope::ALL.map(Scope::as_str));
    }
}
