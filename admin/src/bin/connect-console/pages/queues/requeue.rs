//! Requeueing all dead letters of a queue.

use super::queue;
use crate::context::{Change, View};
use crate::failure::Failure;
use crate::layout;
use crate::pages::form::confirmation;
use crate::response::redirect;
use admin::{SilentObserver, queues};
use common::broker::Queue;
use maud::html;
use warp::reply::Response;

pub(crate) async fn confirm(view: View<'_>) -> Result<Response, Failure> {
    let queue = queue(&view)?;
    let page = format!("/queues/{}", queue.as_str());
    let question = html! {
        p { "All dead letters of the queue are processed again. If the cause was not corrected, they come back." }
        @if queue == Queue::Webhooks { p { "Their deliveries are replayed with the same ids. Those that were delivered meanwhile are left out." } }
    };
    let content = confirmation(&format!("{page}/requeue"), "Requeue the dead letters", &page, &question);
    Ok(layout::page(&view, &format!("Requeue the dead letters of {}?", queue.as_str()), &content))
}

pub(crate) async fn requeue(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let queue = queue(&context)?;
    let broker = context.app.broker().await?;
    let connection = &broker.connection;
    let (client, actor) = change.operation();
    let done = if queue == Queue::Webhooks {
        queues::requeue_webhooks(client, actor, connection, None, &mut SilentObserver).await
    } else {
        queues::requeue(client, actor, connection, queue, None, &mut SilentObserver).await
    };
    broker.close().await;
    done?;
    Ok(redirect(&format!("/queues/{}?done=requeued", queue.as_str())))
}
