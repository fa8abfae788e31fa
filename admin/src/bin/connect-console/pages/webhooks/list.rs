//! The subscriptions of an agency.

use super::{event_names, health, state};
use crate::context::View;
use crate::failure::Failure;
use crate::format::time;
use crate::layout;
use admin::console::Role;
use admin::subscriptions;
use maud::html;
use uuid::Uuid;
use warp::reply::Response;

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let listed = subscriptions::list(view.client(), &view.tenant()?.slug).await?;
    let ids: Vec<Uuid> = listed.iter().map(|subscription| subscription.id).collect();
    let health = subscriptions::health(view.client(), view.tenant()?.id, &ids).await?;
    let content = html! {
        @if view.may(Role::Admin) {
            p { a.button href=(view.tenant_path("/webhooks/new")) { "Create a subscription" } }
        }
        @if listed.is_empty() {
            p { "There is no subscription. With one, a receiver of yours gets a signed POST when an advisor is assigned, a proposal is sent or a trip is booked." }
        } @else {
            div.scroll role="group" aria-label="Table" tabindex="0" { table {
                thead { tr {
                    th scope="col" { "Receiver" } th scope="col" { "State" } th scope="col" { "Events" }
                    th.number scope="col" { "Success, 24 h" } th.number scope="col" { "Response time" } th scope="col" { "Last failure" }
                    th scope="col" { "Key" } th scope="col" { "Created" }
                } }
                tbody {
                    @for subscription in &listed {
                        tr {
                            th scope="row" { a href=(view.tenant_path(&format!("/webhooks/{}", subscription.id))) { (subscription.url) } }
                            td { (state(subscription)) }
                            td { (event_names(subscription)) }
                            (health::cells(health.get(&subscription.id)))
                            td { @if let Some(key) = &subscription.key { code { (key) } } @else { "-" } }
                            td { (time(subscription.created_at)) }
                        }
                    }
                }
            } }
        }
    };
    Ok(layout::page(&view, "Webhooks", &content))
}
