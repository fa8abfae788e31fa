//! The frame of all pages: head, navigation, notice.

use crate::context::Context;
use crate::pages::form::once;
use crate::pages::partners::may_invite;
use crate::response::html as respond;
use admin::console::Role;
use hyper::StatusCode;
use maud::{DOCTYPE, Markup, html};
use warp::reply::Response;

/// The pages of a tenant, by their path below its start page, each with its name and the lines of its icon.
const TENANT_PAGES: [(&str, &str, &str); 13] = [
    ("", "Overview", "M2 2h5v5H2zM9 2h5v5H9zM2 9h5v5H2zM9 9h5v5H9z"),
    ("/keys", "API keys", "M6 6a3 3 0 1 0 0 5a3 3 0 0 0 0-5M9 8h6v3M12 8v2"),
    ("/refusals", "Refused requests", "M8 2a6 6 0 1 0 0 12a6 6 0 0 0 0-12M4 4l8 8"),
    ("/webhooks", "Webhooks", "M6 3H3v10h10v-3M9 3h4v4M13 3L7 9"),
    ("/deliveries", "Deliveries", "M2 8l12-6l-4 12l-3-5z"),
    ("/replays", "Replays", "M13 8a5 5 0 1 1-2-4M12 1v4H8"),
    ("/find", "Where is my event?", FIND),
    ("/pipeline", "Enquiries", "M2 4h12M2 8h12M2 12h8"),
    ("/members", "Members", "M8 2a3 3 0 1 0 0 6a3 3 0 0 0 0-6M2 14c1-5 11-5 12 0"),
    (
        "/partners",
        "Partners",
        "M5 4a2 2 0 1 0 0 4a2 2 0 0 0 0-4M12 4a2 2 0 1 0 0 4a2 2 0 0 0 0-4M1 14c1-5 7-5 8 0M10 11c2-2 5-1 5 3",
    ),
    ("/usage", "Usage", "M3 14V9M8 14V3M13 14V6"),
    ("/settings", "Agency", "M2 5h12M2 11h12M5 3v4M10 9v4"),
    ("/audit", "Audit", AUDIT),
];

/// The pages of operators.
const OPERATOR_PAGES: [(&str, &str, &str); 5] = [
    ("/", "Overview", "M2 2h5v5H2zM9 2h5v5H9zM2 9h5v5H2zM9 9h5v5H9z"),
    ("/queues", "Queues", "M2 4h12v3H2zM2 9h12v3H2z"),
    ("/find", "Where is my event?", FIND),
    ("/audit", "Audit", AUDIT),
    ("/runbook", "Runbook", "M3 2h10v12H3zM6 2v12"),
];
const FIND: &str = "M7 2a5 5 0 1 0 0 10a5 5 0 0 0 0-10M11 11l3 3";
const AUDIT: &str = "M8 2a6 6 0 1 0 0 12a6 6 0 0 0 0-12M8 5v3l2 2";

/// The lists that pages without an entry of their own belong to.
const LISTS: [(&str, &str); 2] = [("/leads", "/pipeline"), ("/signature", "/refusals")];

/// What a page says of the change that led to it, by the query `done`. A text of the query itself is never shown.
const NOTICES: [(&str, &str); 18] = [
    ("scopes", "The scopes were changed. Running programs follow within a second."),
    ("overlap-ended", "The old secret is no longer valid."),
    ("revoked", "The key was revoked. Running programs refuse it within a second."),
    ("paused", "The subscription is paused. Its deliveries wait until you resume it."),
    ("resumed", "The subscription is active. Each delivery that waited is sent at the time of its next attempt."),
    ("removed", "The subscription was removed, and its deliveries that waited or failed for good were dropped."),
    ("replayed", "The delivery is being sent again."),
    ("replay-created", "The replay was created. Its progress is shown below."),
    ("replay-stopped", "The replay was stopped. What was replayed already is sent."),
    ("url", "The URL was changed. Deliveries that wait go to the new one."),
    ("events", "The event types were changed. They hold for events from now on."),
    ("saved", "The settings were saved."),
    (
        "member-added",
        "The member was added, or renamed if there was one with this email. New enquiries may be assigned to them.",
    ),
    ("member-restored", "The member is active again. New enquiries may be assigned to them."),
    ("member-deactivated", "The member was deactivated. No new enquiries are assigned to them."),
    ("partners-revoked", "All links and sessions of partners were ended."),
    ("requeued", "Dead letters were requeued. Those that are still listed were not."),
    ("dropped", "Dead letters were dropped. Those that are still listed were not."),
];

/// A page of somebody who is signed in.
pub(crate) fn page(context: &Context<'_>, title: &str, content: &Markup) -> Response {
    page_with(context, StatusCode::OK, title, content)
}

/// [`page`] with another status, such as that of a form with faults.
pub(crate) fn page_with(context: &Context<'_>, status: StatusCode, title: &str, content: &Markup) -> Response {
    respond(status, document(title, None, &body(context, title, content)))
}

/// [`page`] that is loaded again every few seconds, with and without scripts.
pub(crate) fn page_refreshing(context: &Context<'_>, title: &str, seconds: u32, content: &Markup) -> Response {
    let content = html! { div data-refresh=(seconds) { (content) } };
    respond(StatusCode::OK, document(title, Some(seconds), &body(context, title, &content)))
}

fn body(context: &Context<'_>, title: &str, content: &Markup) -> Markup {
    html! {
        (navigation(context))
        main {
            (breadcrumbs(context))
            div #content {
                h1 { bdi { (title) } }
                (notice(context))
                (content)
            }
        }
    }
}

/// The slug and name of the tenant whose page it is, or of the only one that the person may see, whose name a failure has not loaded.
fn agency<'c>(context: &'c Context<'_>) -> Option<(&'c str, &'c str)> {
    let own = context.session.tenant_slug.as_deref().map(|slug| (slug, "Your agency"));
    context.tenant_if_any().map(|tenant| (tenant.slug.as_str(), tenant.name.as_str())).or(own)
}

/// Whether the path is that of a page, or of one below it.
fn is_below(path: &str, page: &str) -> bool {
    path.strip_prefix(page).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The pages above this one.
fn breadcrumbs(context: &Context<'_>) -> Markup {
    let path = context.request.path.as_str();
    let listed = |pages: &[(&str, &'static str, &str)], path: &str| {
        pages.iter().skip(1).find(|(page, ..)| is_below(path, page)).map(|(page, name, _)| (page.to_string(), *name))
    };
    let mut above = Vec::new();
    if context.may(Role::Operator) && path != "/" {
        above.push(("/".to_owned(), "All agencies"));
        above.extend(listed(&OPERATOR_PAGES, path));
    }
    if let Some((slug, name)) = agency(context) {
        let base = format!("/agencies/{slug}");
        let rest = path.strip_prefix(&base).unwrap_or_default();
        let list = LISTS.iter().find(|(page, _)| is_below(rest, page)).map_or(rest, |(_, list)| *list);
        let list = listed(&TENANT_PAGES, list).map(|(page, name)| (format!("{base}{page}"), name));
        above.push((base, name));
        above.extend(list);
    }
    if above.last().is_some_and(|(page, _)| page == path && above.len() > 1) {
        above.pop();
    }
    html! {
        @if !above.is_empty() {
            nav.crumbs aria-label="Breadcrumb" {
                ol { @for (page, name) in &above { li { a href=(page) { bdi { (name) } } } } }
            }
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

fn navigation(context: &Context<'_>) -> Markup {
    let path = context.request.path.as_str();
    let is_shown = |below: &str| match below {
        "/audit" => context.may(Role::Admin),
        "/partners" => may_invite(context.session),
        _ => true,
    };
    html! {
        nav.menu aria-label="Main" {
            p.title { a href="/" { "Connect" } }
            // Narrow screens fold the menu.
            input #menu type="checkbox";
            label for="menu" { "Menu" }
            div.folded {
                @if context.may(Role::Operator) {
                    ul {
                        @for (target, name, icon) in OPERATOR_PAGES {
                            li { (link(target, name, icon, path == target || (target != "/" && is_below(path, target)))) }
                        }
                    }
                }
                @if let Some((slug, agency)) = agency(context) {
                    p { bdi { (agency) } }
                    ul {
                        @for (below, name, icon) in TENANT_PAGES.into_iter().filter(|(below, ..)| is_shown(below)) {
                            @let target = format!("/agencies/{slug}{below}");
                            @let is_current = path == target || (!below.is_empty() && is_below(path, &target));
                            li { (link(&target, name, icon, is_current)) }
                        }
                    }
                }
                (signed_in(context))
            }
        }
    }
}

fn link(target: &str, name: &str, icon: &str, is_current: bool) -> Markup {
    html! {
        a href=(target) aria-current=[is_current.then_some("page")] {
            svg.icon viewBox="0 0 16 16" aria-hidden="true" { path d=(icon) {} } (name)
        }
    }
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
