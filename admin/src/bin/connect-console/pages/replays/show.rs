//! The progress of a replay job.

use super::{progress, state};
use crate::context::View;
use crate::failure::Failure;
use crate::format::time;
use crate::layout;
use admin::console::Role;
use admin::deliveries::{self, ReplayJob, ReplayJobState};
use common::model::TenantId;
use maud::{Markup, html};
use tokio_postgres::Client;
use warp::reply::Response;

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
            dt { "Deliveries" } dd { (job.states.join(" and ")) }
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
