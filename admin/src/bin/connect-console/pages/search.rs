//! "Where is my event?": one search by any id, shown as a timeline.

use crate::context::View;
use crate::failure::Failure;
use crate::format::{pill, time};
use crate::layout;
use admin::find::{FindQuery, FoundStep, find};
use chrono::{DateTime, TimeDelta, Utc};
use common::model::{Email, text};
use maud::{Markup, html};
use uuid::Uuid;
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
            div data-refresh="10" { @if steps.is_empty() { (nothing(id, with_emails)) } @else { (timeline(&steps)) } }
            @if steps.iter().any(|step| ["client", "lead"].contains(&step.stage)) {
                p.soft { "Of a client or enquiry the newest events are shown. A change through the records API is found by its " code { "X-Request-Id" } "." }
            }
        }
    };
    Ok(layout::page(&view, "Where is my event?", &content))
}

/// The field for an id. The page has a link of its own, because the id is in the URL.
pub(super) fn form(path: &str, id: &str, with_emails: bool) -> Markup {
    let what =
        "Id of an event, request, trace, client, enquiry (also your own), booking or delivery, or an enquiry number";
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

fn nothing(id: &str, with_emails: bool) -> Markup {
    if !with_emails && Email::parse(id).is_ok() {
        return html! { p { "Only administrators can search by email address. Search by an id or an enquiry number." } };
    }
    html! {
        p { "Nothing is known of " code { (id) } "." }
        ul {
            li { "An event that failed is not kept. The response to its request said which error it has; correct the event and send it again with the same id. Of a request without another event only the latest one of each error is known, for some minutes. A duplicate changes nothing and is not kept." }
            li { "An event of a request that was refused, or got 503, is not known by its id. Such a request is found by its " code { "X-Request-Id" } " if it named a key. Kept are the newest 200 of a key, at most 20 a minute, 10 of them with the same reason, and none that got 404, 409, 412 or 413." }
            li { "An event that is still in the queue appears as soon as it is applied." }
            li { "A request that applied an event is found by its " code { "X-Request-Id" } ". A trace id (W3C) finds the events that were applied in the trace." }
        }
    }
}

/// What happened, and what became of each delivery, by its subscription.
fn timeline(steps: &[FoundStep]) -> Markup {
    let first = steps.first().map(|step| step.at);
    let mut deliveries: Vec<_> = steps.iter().filter(|step| step.delivery_id.is_some()).collect();
    // The order of time is kept within each.
    deliveries.sort_by_key(|step| {
        let of_subscription = steps.iter().position(|one| one.subscription_id == step.subscription_id);
        (of_subscription, steps.iter().position(|one| one.delivery_id == step.delivery_id))
    });
    html! {
        ol.timeline { @for step in steps.iter().filter(|step| step.delivery_id.is_none()) { (item(step, first, &links(step))) } }
        @for of_one in deliveries.chunk_by(|one, next| one.subscription_id == next.subscription_id) {
            h2 { (of_one[0].receiver.as_deref().unwrap_or_default()) }
            p.soft { "Subscription " code { (of_one[0].subscription_id.unwrap_or_default()) } }
            ol.timeline { @for step in of_one {
                @let id = step.delivery_id.filter(|_| step.stage == "delivery");
                (item(step, first, &html! { @if let Some(id) = id { " · " a href=(path(step, "deliveries", &id)) { "delivery" } } }))
            } }
        }
    }
}

/// What a step is called, and its color.
fn name(step: &FoundStep) -> (&'static str, String) {
    let (class, name) = match (step.stage, step.failure.as_deref()) {
        ("received", _) => ("soft", "Received"),
        ("applied", _) => ("good", "Applied"),
        ("outbox", _) => ("good", "Webhook prepared"),
        ("delivery", _) => ("soft", "To be sent"),
        ("attempt", None) => {
            return ("good", format!("Sent to {}", step.receiver.as_deref().unwrap_or("the receiver")));
        }
        ("refused", Some(status)) if status.starts_with('5') => return ("bad", format!("Answered {status}")),
        ("refused", Some(status)) => return ("bad", format!("Refused {status}")),
        (_, Some(failure)) => return ("bad", format!("Failed {failure}")),
        ("next attempt", None) => ("warn", "Next attempt"),
        ("lead", None) => ("soft", "Enquiry opened"),
        ("client", None) => ("soft", "Client created"),
        (_, None) => ("soft", "Booking"),
    };
    (class, name.to_owned())
}

fn item(step: &FoundStep, first: Option<DateTime<Utc>>, links: &Markup) -> Markup {
    let since = first.map(|first| step.at - first).filter(|since| !since.is_zero());
    let (class, name) = name(step);
    html! {
        li {
            (pill(class, &name)) " " (time(step.at))
            @if let Some(since) = since { span.soft { " · " (duration(since)) " after the first" } }
            br; bdi { (step.detail) }
            (links)
        }
    }
}

fn path(step: &FoundStep, page: &str, id: &Uuid) -> String {
    format!("/agencies/{}/{page}/{id}", step.tenant)
}

fn links(step: &FoundStep) -> Markup {
    html! {
        div.soft {
            @if let Some(id) = &step.event_id { "event " code { (id) } " " }
            @if let Some(id) = step.request_id {
                "request " code { (id) } " "
                @if step.stage == "refused" { a href=(path(step, "refusals", &id)) { "why it was refused" } " " }
            }
            @if let Some(id) = step.client_id { a href=(path(step, "clients", &id)) { "client" } " " }
            @if let Some(id) = step.lead_id { a href=(path(step, "leads", &id)) { "enquiry" } " " }
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

    fn step(stage: &'static str, delivery: Option<u128>, failure: Option<&str>) -> FoundStep {
        FoundStep {
            stage,
            delivery_id: delivery.map(Uuid::from_u128),
            subscription_id: delivery.map(|number| Uuid::from_u128(number % 10)),
            receiver: delivery.map(|number| format!("https://{}.example", number % 10)),
            failure: failure.map(str::to_owned),
            ..FoundStep::default()
        }
    }

    #[test]
    fn steps_are_told_in_words_and_grouped_by_receiver() {
        let steps = [
            step("received", None, None),
            step("delivery", Some(1), None),
            step("delivery", Some(2), None),
            step("delivery", Some(11), None),
            step("attempt", Some(1), Some("500")),
            step("attempt", Some(2), None),
            step("refused", None, Some("503")),
        ];
        let shown = timeline(&steps).into_string();
        let places = [
            "Received", "Answered 503", ">https://1.example</h2>", "Failed 500", ">https://2.example</h2>",
            "Sent to https://2",
        ];
        let places = places.map(|text| shown.find(text).unwrap_or_else(|| panic!("{text}: {shown}")));
        assert!(places.is_sorted() && shown.matches("<h2>").count() == 2, "{shown}");
    }

    #[test]
    fn durations_have_a_unit_that_fits() {
        let told = |milliseconds| duration(TimeDelta::milliseconds(milliseconds));
        assert_eq!([told(7), told(1_250), told(121_000), told(7_200_000)], ["7 ms", "1.2 s", "2 min", "2 h"]);
    }
}
