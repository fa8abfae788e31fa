//! Replay jobs: creating one for everything that matches a filter of deliveries, their progress, and stopping them.

use super::deliveries::{meaning, parse_filter};
use crate::context::{Change, View};
use crate::failure::Failure;
use crate::format::{data_table, number, pill, time};
use crate::layout;
use crate::pages::filter::{Filter, parse_time};
use crate::pages::form::{Faults, Field, once, select};
use crate::response::redirect;
use admin::AdminError;
use admin::audit::Actor;
use admin::console::Role;
use admin::deliveries::{self, DeliveryQuery, MatchingCount, ReplayJob, ReplayJobState};
use common::model::{DeliveryState, TenantId};
use maud::{Markup, html};
use tokio_postgres::Client;
use uuid::Uuid;
use warp::reply::Response;

fn state(state: ReplayJobState) -> Markup {
    match state {
        ReplayJobState::Running => pill("warn", "running"),
        ReplayJobState::Stopping => pill("warn", "stopping"),
        ReplayJobState::Completed => pill("good", "completed"),
        ReplayJobState::Stopped => pill("soft", "stopped"),
    }
}

/// Such as `120 of 500`.
fn progress(job: &ReplayJob) -> String {
    let matched = job.matched.map_or_else(|| "more than 100\u{2009}000".to_owned(), number);
    format!("{} of {matched}", number(job.replayed))
}

/// Jobs that are shown.
const SHOWN: u32 = 100;

pub(crate) async fn list(view: View<'_>) -> Result<Response, Failure> {
    let listed = deliveries::list_replays(view.client(), &view.tenant()?.slug, SHOWN).await?;
    let content = html! {
        @if listed.items.is_empty() {
            p { "There is no replay. To replay deliveries, filter the " a href=(view.tenant_path("/deliveries?state=dead")) { "deliveries" } " and replay everything that matches." }
        } @else {
            (data_table(&["Created", "State", "Deliveries", "#Sent again"], &html! {
                @for job in listed.items.iter().rev() {
                    tr {
                        th scope="row" { a href=(view.tenant_path(&format!("/replays/{}", job.id))) { (time(job.created_at)) } }
                        td { (state(job.state)) }
                        td { (job.states.join(" and ").replace("dead", "failed for good")) @if let Some(event_type) = &job.event_type { ", " (event_type) } }
                        td.number { (progress(job)) }
                    }
                }
            }))
        }
    };
    Ok(layout::page(&view, "Replays", &content))
}

/// Maximum number of deliveries that are counted. A job replays more than these.
const COUNTED_MAX: u64 = 100_000;

/// How fast deliveries are replayed, in a second.
const RATES: [(&str, &str); 4] =
    [("10", "10 a second"), ("50", "50 a second"), ("100", "100 a second"), ("500", "500 a second")];
/// The rate that is offered first.
const RATE: &str = "50";

/// Refuses a filter that is not understood completely, so that nothing is replayed that the person did not choose, and one
/// without a state, which would repeat what was delivered beside what failed.
fn check(filter: Filter<DeliveryQuery>) -> Result<Filter<DeliveryQuery>, Failure> {
    let has_state = matches!(filter.selected.state, Some(DeliveryState::DeadLettered | DeliveryState::Delivered));
    if !filter.faults().is_empty() || !has_state {
        return Err(Failure::BadRequest("choose the state Failed for good or Delivered, and correct the filter"));
    }
    Ok(filter)
}

/// A count for people.
fn counted_text(counted: MatchingCount) -> String {
    let count = number(i64::try_from(counted.count).unwrap_or(i64::MAX));
    if counted.has_more { format!("more than {count}") } else { count }
}

pub(crate) async fn confirm(view: View<'_>) -> Result<Response, Failure> {
    let filter = check(parse_filter(&view.request.query))?;
    let tenant = view.tenant()?.id;
    let counted = deliveries::count_replay(view.client(), tenant, &filter.selected, COUNTED_MAX).await?;
    let back = filter.path(&view.tenant_path("/deliveries"), None);
    let rate =
        Field { name: "rate", label: "How fast", hint: "The receivers get these deliveries beside the new ones." };
    let content = html! {
        @if counted.count == 0 {
            p { "No delivery matches the filter any more." }
            p { a href=(back) { "Back" } }
        } @else {
            div.alert {
                p { strong { (counted_text(counted)) } (if counted.count == 1 { " delivery matches" } else { " deliveries match" }) " the filter and will be sent again, with the same event ids and delivery ids." }
                (described(&filter))
            }
            form method="post" action=(view.tenant_path("/deliveries/replay")) {
                (once(&view))
                @for (name, value) in filter.fields() { input type="hidden" name=(name) value=(value); }
                (select(rate, &RATES, RATE, &Faults::none()))
                div.actions { button.danger { "Send them again" } a.button.plain href=(back) { "Cancel" } }
            }
        }
    };
    Ok(layout::page(&view, "Replay everything that matches?", &content))
}

fn described(filter: &Filter<DeliveryQuery>) -> Markup {
    html! {
        dl {
            @for (name, value) in filter.fields().filter(|(_, value)| !value.is_empty()) {
                dt { (name) } dd { @match (DeliveryState::parse(value), parse_time(value)) { (Some(state), _) if name == "state" => { (meaning(state)) } (_, Some(at)) => { (time(at)) } _ => { (value) } } }
            }
        }
    }
}

pub(crate) async fn start(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let filter = check(parse_filter(change.form()))?;
    let typed = change.form().optional("rate").unwrap_or(RATE);
    // The page offers a list, so another value was not chosen there.
    let is_offered = RATES.iter().any(|(rate, _)| *rate == typed);
    let rate = typed.parse().ok().filter(|_| is_offered);
    let rate = rate.ok_or(Failure::BadRequest("choose one of the rates of the page"))?;
    let tenant = context.tenant()?.id;
    let counted = deliveries::count_replay(change.client(), tenant, &filter.selected, COUNTED_MAX).await?;
    let job = Uuid::now_v7();
    let create = async |client: &mut Client, actor: &Actor| {
        deliveries::create_replay(client, actor, (tenant, job), &filter.selected, (counted, rate)).await
    };
    change.run(context.tenant_path(&format!("/replays/{job}?done=replay-created")), create).await
}

/// Seconds after which the page of a job that has not ended is loaded again.
const REFRESH: u32 = 2;

/// The job with this id, if it belongs to the tenant.
pub(super) async fn find(client: &Client, tenant: TenantId, id: &str) -> Result<ReplayJob, Failure> {
    let job = deliveries::find_replay(client, id).await?;
    if job.tenant == tenant { Ok(job) } else { Err(Failure::NotFound) }
}

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let job = find(view.client(), view.tenant()?.id, view.id()?).await?;
    let content = html! {
        (facts(&view, &job))
        @if job.state == ReplayJobState::Running {
            p { "The dispatcher executes it, also after you leave this page. If the numbers do not change, no dispatcher is running." }
            @if view.may(Role::Admin) {
                form method="post" action=(view.tenant_path(&format!("/replays/{}/stop", job.id))) {
                    (once(&view))
                    button.danger { "Stop" }
                    p.hint { "Nothing more is replayed. What was replayed already is sent." }
                }
            }
        }
        p { a href=(view.tenant_path("/replays")) { "All replays" } }
    };
    if job.state.has_ended() {
        return Ok(layout::page(&view, "Replay", &content));
    }
    Ok(layout::page_refreshing(&view, "Replay", REFRESH, &content))
}

fn facts(view: &View<'_>, job: &ReplayJob) -> Markup {
    let (from, to) = job.occurred();
    let most = job.matched.and_then(|matched| u64::try_from(matched).ok());
    let done = u64::try_from(job.replayed).unwrap_or_default();
    html! {
        @if let Some(most) = most.filter(|most| *most > 0) {
            p { progress max=(most) value=(done.min(most)) aria-label="Deliveries that were sent again" { (progress(job)) } }
        }
        dl {
            dt { "State" } dd { (state(job.state)) }
            dt { "Sent again" } dd { (progress(job)) }
            dt { "Rate" } dd { (job.per_second) " a second at most" }
            dt { "Deliveries" } dd { (job.states.join(" and ").replace("dead", "failed for good")) }
            @if let Some(event_type) = &job.event_type { dt { "Event type" } dd { (event_type) } }
            @if let Some(id) = job.subscription_id {
                dt { "Subscription" } dd { a href=(view.tenant_path(&format!("/webhooks/{id}"))) { code { (id) } } }
            }
            @if let Some(from) = from { dt { "Events from" } dd { (time(from)) } }
            @if let Some(to) = to { dt { "Events before" } dd { (time(to)) } }
            dt { "Id" } dd { code data-copy { (job.id) } }
            dt { "Created" } dd { (time(job.created_at)) }
            @if let Some(ended) = job.ended_at { dt { "Ended" } dd { (time(ended)) } }
        }
    }
}

pub(crate) async fn stop(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let job = find(change.client(), context.tenant()?.id, context.id()?).await?;
    let (page, id) = (context.tenant_path(&format!("/replays/{}", job.id)), job.id.to_string());
    let stop = async |client: &mut Client, actor: &Actor| deliveries::stop_replay(client, actor, &id).await;
    match change.run(format!("{page}?done=replay-stopped"), stop).await {
        // It has ended since the page was shown, which the page says.
        Err(Failure::Operation(AdminError::ReplayJobNotRunning(_))) => Ok(redirect(&page)),
        stopped => stopped,
    }
}
