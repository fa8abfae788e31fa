//! The replay jobs of an agency.

use super::{progress, state};
use crate::context::View;
use crate::failure::Failure;
use crate::format::time;
use crate::layout;
use admin::deliveries;
use maud::html;
use warp::reply::Response;

/// Jobs that are shown.
const SHOWN: u32 = 100;

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let listed = deliveries::list_replays(view.client(), &view.tenant()?.slug, SHOWN).await?;
    let content = html! {
        @if listed.items.is_empty() {
            p { "There is no replay. To replay deliveries, filter the " a href=(view.tenant_path("/deliveries?state=dead")) { "deliveries" } " and replay everything that matches." }
        } @else {
            div.scroll { table {
                thead { tr {
                    th scope="col" { "Created" } th scope="col" { "State" } th scope="col" { "Deliveries" } th.number scope="col" { "Sent again" }
                } }
                tbody {
                    @for job in listed.items.iter().rev() {
                        tr {
                            th scope="row" { a href=(view.tenant_path(&format!("/replays/{}", job.id))) { (time(job.created_at)) } }
                            td { (state(job.state)) }
                            td { (job.states.join(" and ")) @if let Some(event_type) = &job.event_type { ", " (event_type) } }
                            td.number { (progress(job)) }
                        }
                    }
                }
            } }
        }
    };
    Ok(layout::page(&view, "Replays", &content))
}
