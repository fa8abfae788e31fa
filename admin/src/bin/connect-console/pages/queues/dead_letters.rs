//! The dead letters of a queue with their reasons, without bodies.

use super::queue;
use crate::context::View;
use crate::failure::Failure;
use crate::format::{time_or, time_text};
use crate::layout;
use admin::queues::{self, DeadLetterView, MacStatus};
use maud::{Markup, html};
use warp::reply::Response;

/// Maximum number of dead letters that are shown, the oldest ones.
const SHOWN_MAX: u32 = 100;

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let queue = queue(&view)?;
    let broker = view.app.broker().await?;
    let listed =
        queues::dead_letters(&broker.connection, queue, SHOWN_MAX, Some(&view.app.master_keys)).await;
    broker.close().await;
    let listed = listed?;
    let path = format!("/queues/{}", queue.as_str());
    let content = html! {
        @if listed.is_empty() {
            p { "There are no dead letters in this queue." }
        } @else {
            div.actions {
                a.button href={ (path) "/requeue" } { "Requeue" }
                a.button.danger href={ (path) "/drop" } { "Drop" }
            }
            p.soft { "The oldest " (listed.len()) ". Bodies are not shown, because they contain contact data." }
            (table(&listed))
        }
        p { a href="/queues" { "All queues" } }
    };
    Ok(layout::page(&view, &format!("Dead letters of {}", queue.as_str()), &content))
}

fn table(listed: &[DeadLetterView]) -> Markup {
    html! {
        div.scroll role="group" aria-label="Table" tabindex="0" { table {
            thead { tr {
                th scope="col" { "Type" } th scope="col" { "Why" } th scope="col" { "MAC" }
                th scope="col" { "Dead-lettered" } th scope="col" { "Published" }
                th scope="col" { "Ids" } th.number scope="col" { "Bytes" }
            } }
            tbody {
                @for letter in listed {
                    tr {
                        th scope="row" { (letter.metadata.kind.as_deref().unwrap_or("unknown")) }
                        td { (letter.why) }
                        td { (letter.mac.map_or("-", MacStatus::as_str)) }
                        td { (letter.at.as_deref().map_or_else(|| html! { "-" }, time_text)) }
                        td { (time_or(letter.metadata.published_at.as_deref(), "-")) }
                        td {
                            @for (name, id) in ids(letter) { (name) " " code { (id) } br; }
                        }
                        td.number { (letter.bytes) }
                    }
                }
            }
        } }
    }
}

fn ids(letter: &DeadLetterView) -> Vec<(&'static str, String)> {
    let about = &letter.metadata;
    let ids = [
        ("request", about.request_id.map(|id| id.to_string())),
        ("delivery", about.delivery_id.map(|id| id.to_string())),
        ("event", about.event_id.map(|id| id.to_string())),
        ("message", letter.message_id.clone()),
    ];
    ids.into_iter().filter_map(|(name, id)| Some((name, id?))).collect()
}
