//! All queues with their lengths.

use crate::context::View;
use crate::failure::Failure;
use crate::format::{number, time_or};
use crate::layout;
use admin::queues;
use common::broker::Queue;
use maud::{Markup, html};
use warp::reply::Response;

pub(crate) async fn page(view: View<'_>) -> Result<Response, Failure> {
    let broker = view.app.broker().await?;
    let listed = queues::list(&broker.connection).await;
    broker.close().await;
    let mut listed = listed?;
    queues::add_ages(view.client(), &mut listed).await?;
    let has_dead_letters = listed.iter().any(|queue| queue.dead.unwrap_or_default() > 0);
    let content = html! {
        @if has_dead_letters {
            p.alert { "There are dead letters. Look at their reasons, correct the cause, and requeue them." }
        }
        div.scroll role="group" aria-label="Table" tabindex="0" data-refresh="10" { table {
            thead { tr {
                th scope="col" { "Queue" } th.number scope="col" { "Waiting" } th scope="col" { "Oldest" } th.number scope="col" { "Consumers" } th.number scope="col" { "Dead letters" }
            } }
            tbody {
                @for queue in &listed {
                    tr {
                        th scope="row" {
                            @if Queue::ALL.iter().any(|known| known.as_str() == queue.name) {
                                a href={ "/queues/" (queue.name) } { (queue.name) }
                            } @else { (queue.name) }
                        }
                        td.number { (count(queue.depth)) }
                        td { (time_or(queue.oldest.as_deref(), "-")) }
                        td.number { (count(queue.consumers)) }
                        td.number { (count(queue.dead)) }
                    }
                }
            }
        } }
        p.soft { "The oldest message that waits was published then or later; a webhook is due since then. A dash means that nothing waits or its age is unknown, that the queue does not exist, or that it has no dead-letter queue." }
    };
    Ok(layout::page(&view, "Queues", &content))
}

fn count(value: Option<u32>) -> Markup {
    html! { @match value { Some(value) => (number(value.into())), None => "-" } }
}
