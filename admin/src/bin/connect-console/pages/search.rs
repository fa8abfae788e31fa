//! "Where is my event?": one search by any id, shown as a timeline.

use crate::context::View;
use crate::failure::Failure;
use crate::format::time;
use crate::layout;
use admin::find::{FindQuery, FoundStep, find};
use chrono::TimeDelta;
use common::model::text;
use maud::{Markup, html};
use warp::reply::Response;

/// Longest id that is looked up.
const ID_MAX: usize = 320;

/// The search in an agency.
pub(crate) async fn in_tenant(view: View<'_>) -> Result<Response, Failure> {
    let slug = view.tenant()?.slug.as_str();
    page(view, Some(slug), &view.tenant_path("/find")).await
}

/// The search in all agencies.
pub(crate) async fn everywhere(view: View<'_>) -> Result<Response, Failure> {
    page(view, None, "/find").await
}

async fn page(view: View<'_>, tenant: Option<&str>, path: &str) -> Result<Response, Failure> {
    let id = view.request.query.as_sent("id");
    let with_emails = view.sees_contacts();
    let steps = if text::is_blank(id) || id.chars().count() > ID_MAX {
        Vec::new()
    } else {
        view.shown(find(view.client(), &FindQuery { tenant, id, with_emails }).await?)
    };
    let content = html! {
        (form(path, id, with_emails))
        @if !text::is_blank(id) {
            @if steps.is_empty() { (nothing(id)) } @else { (timeline(&steps)) }
        }
    };
    Ok(layout::page(&view, "Where is my event?", &content))
}

/// The field for an id. The page has a link of its own, because the id is in the URL.
pub(super) fn form(path: &str, id: &str, with_emails: bool) -> Markup {
    let what = "Id of an event, request, trace, client, enquiry, booking or delivery, or an enquiry number";
    html! {
        form.filter method="get" action=(path) role="search" {
            div {
                label for="id" { (what) (if with_emails { ", or an email address" } else { "" }) }
                input id="id" name="id" type="search" value=(id) size="44" maxlength=(ID_MAX) autocomplete="off";
            }
            button { "Find" }
        }
    }
}

fn nothing(id: &str) -> Markup {
    html! {
        p { "Nothing is known of " code { (id) } "." }
        ul {
            li { "An event that was refused with a 4xx or 503 was not applied, and is not known here. A refused request is found by its " code { "X-Request-Id" } ", if it named a key." }
            li { "An event that is still in the queue appears as soon as it is applied." }
            li { "A request is found by its " code { "X-Request-Id" } ", if it applied an event or was refused lately. A trace id (W3C) finds the events that were applied in the trace." }
        }
    }
}

fn timeline(steps: &[FoundStep]) -> Markup {
    let first = steps.first().map(|step| step.at);
    let since = |step: &FoundStep| first.map(|first| step.at - first).filter(|since| !since.is_zero());
    html! {
        ol.timeline {
            @for step in steps {
                li {
                    span.stage { (step.stage) } " " (time(step.at))
                    @if let Some(since) = since(step) { span.soft { " · " (duration(since)) " after the first" } }
                    br; bdi { (step.detail) }
                    (links(step))
                }
            }
        }
    }
}

fn links(step: &FoundStep) -> Markup {
    let below = |path: &str, id: &dyn std::fmt::Display| format!("/agencies/{}/{path}{id}", step.tenant);
    html! {
        div.soft {
            @if let Some(id) = &step.event_id { "event " code { (id) } " " }
            @if let Some(id) = step.request_id {
                "request " code { (id) } " "
                @if step.stage == "refused" { a href=(below("refusals/", &id)) { "why it was refused" } " " }
            }
            @if let Some(id) = step.client_id { a href=(below("clients/", &id)) { "client" } " " }
            @if let Some(id) = step.lead_id { a href=(below("leads/", &id)) { "enquiry" } " " }
            @if let Some(id) = step.delivery_id { a href=(below("deliveries/", &id)) { "delivery" } " " }
        }
    }
}

/// A duration with its unit: milliseconds, seconds, minutes or hours.
fn duration(span: TimeDelta) -> String {
    let milliseconds = span.num_milliseconds();
    match milliseconds {
        ..1_000 => format!("{milliseconds} ms"),
        1_000..120_000 => format!("{}.{} s", milliseconds / 1_000, milliseconds % 1_000 / 100),
        120_000..7_200_000 => format!("{} min", milliseconds / 60_000),
        7_200_000.. => format!("{} h", milliseconds / 3_600_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_that_fits() {
        let told = |milliseconds| duration(TimeDelta::milliseconds(milliseconds));
        assert_eq!([told(7), told(1_250), told(121_000), told(7_200_000)], ["7 ms", "1.2 s", "2 min", "2 h"]);
    }
}
