//! The frame of all pages: head, navigation, notice.

use crate::context::Context;
use crate::pages::form::once;
use crate::response::html as respond;
use admin::console::Role;
use admin::tenants::Tenant;
use hyper::StatusCode;
use maud::{DOCTYPE, Markup, html};
use warp::reply::Response;

/// The pages of a tenant, by their path below its start page.
const TENANT_PAGES: [(&str, &str); 10] = [
    ("", "Overview"),
    ("/keys", "API keys"),
    ("/refusals", "Refused requests"),
    ("/webhooks", "Webhooks"),
    ("/deliveries", "Deliveries"),
    ("/replays", "Replays"),
    ("/find", "Where is my event?"),
    ("/pipeline", "Enquiries"),
    ("/settings", "Agency"),
    ("/audit", "Audit"),
];

/// The pages of operators.
const OPERATOR_PAGES: [(&str, &str); 5] = [
    ("/", "Overview"),
    ("/queues", "Queues"),
    ("/find", "Where is my event?"),
    ("/audit", "Audit"),
    ("/runbook", "Runbook"),
];

/// What a page says of the change that led to it, by the query `done`. A text of the query itself is never shown.
const NOTICES: [(&str, &str); 16] = [
    ("scopes", "The scopes were changed. Running programs follow within a second."),
    ("overlap-ended", "The old secret is no longer valid."),
    ("revoked", "The key was revoked. Running programs refuse it within a second."),
    ("paused", "The subscription is paused. Its deliveries wait until you resume it."),
    ("resumed", "The subscription is active. Deliveries that waited are being sent."),
    ("removed", "The subscription was removed, and its pending and dead-lettered deliveries were dropped."),
    ("replayed", "The delivery is being sent again."),
    ("replay-created", "The deliveries are being sent again."),
    ("replay-stopped", "The replay was stopped. What was replayed already is sent."),
    ("events", "The event types were changed. They hold for events from now on."),
    ("saved", "The settings were saved."),
    ("member-added", "The member was added. New enquiries may be assigned to them."),
    ("member-removed", "The member was deactivated. No new enquiries are assigned to them."),
    ("partners-revoked", "All links and sessions of partners were ended."),
    ("requeued", "Dead letters were requeued. Those that are still listed were not."),
    ("dropped", "Dead letters were dropped. Those that are still listed were not."),
];

/// A page of somebody who is signed in.
pub(crate) fn page(context: &Context<'_>, title: &str, content: &Markup) -> Response {
    page_with(context, StatusCode::OK, title, content)
}

/// [`page`] with another status, such as that of a form with faults.
pub(crate) fn page_with(
    context: &Context<'_>,
    status: StatusCode,
    title: &str,
    content: &Markup,
) -> Response {
    respond(status, document(title, None, &body(context, title, content)))
}

/// [`page`] that is loaded again every few seconds, with and without scripts.
pub(crate) fn page_refreshing(
    context: &Context<'_>,
    title: &str,
    seconds: u32,
    content: &Markup,
) -> Response {
    let content = html! { div data-refresh=(seconds) { (content) } };
    respond(StatusCode::OK, document(title, Some(seconds), &body(context, title, &content)))
}

fn body(context: &Context<'_>, title: &str, content: &Markup) -> Markup {
    let tenant = context.tenant_if_any();
    let whose = tenant.map(|tenant| tenant.name.as_str());
    html! {
        (navigation(context, tenant))
        main #content {
            @if let Some(tenant) = whose { p.whose { bdi { (tenant) } } }
            h1 { bdi { (title) } }
            (notice(context))
            (content)
        }
    }
}

/// A page without navigation: sign-in and failures.
pub(crate) fn bare(title: &str, content: &Markup) -> Markup {
    document(title, None, &html! { main #content.bare { p.whose { "Connect" } h1 { (title) } (content) } })
}

/// A document that a browser without scripts loads again after `refresh` seconds. With scripts, only its content is replaced.
fn document(title: &str, refresh: Option<u32>, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " - Connect" }
                @if let Some(seconds) = refresh { noscript { meta http-equiv="refresh" content=(seconds); } }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="/assets/console.css";
                script src="/assets/console.js" defer {}
            }
            body {
                a.skip href="#content" { "Skip to the content" }
                (body)
            }
        }
    }
}

fn navigation(context: &Context<'_>, tenant: Option<&Tenant>) -> Markup {
    let path = context.request.path.as_str();
    html! {
        nav aria-label="Main" {
            p.title { a href="/" { "Connect" } }
            @if context.may(Role::Operator) {
                ul {
                    @for (target, name) in OPERATOR_PAGES {
                        li { (link(target, name, path == target || (target != "/" && path.starts_with(target)))) }
                    }
                }
            }
            @if let Some(tenant) = tenant {
                p { bdi { (tenant.name) } }
                ul {
                    @for (below, name) in TENANT_PAGES.into_iter().filter(|(below, _)| *below != "/audit" || context.may(Role::Admin)) {
                        @let target = context.tenant_path(below);
                        @let is_current = path == target || (!below.is_empty() && path.starts_with(&format!("{target}/")));
                        li { (link(&target, name, is_current)) }
                    }
                }
            }
            (signed_in(context))
        }
    }
}

fn link(target: &str, name: &str, is_current: bool) -> Markup {
    html! { a href=(target) aria-current=[is_current.then_some("page")] { (name) } }
}

/// Who is signed in, and how to sign out.
fn signed_in(context: &Context<'_>) -> Markup {
    html! {
        div.who {
            p { "Signed in: " strong { bdi { (context.session.identity.person.as_str()) } } }
            p.soft { "Role: " (context.session.role().as_str()) }
            form method="post" action="/sign-out" { (once(context)) button.plain { "Sign out" } }
            form method="post" action="/sign-out-everywhere" { (once(context)) button.plain { "Sign out everywhere" } }
        }
    }
}

fn notice(context: &Context<'_>) -> Markup {
    let done = context.request.query.get("done");
    let known = NOTICES.iter().find(|(name, _)| *name == done);
    html! { @if let Some((_, text)) = known { p.notice role="status" { (text) } } }
}
