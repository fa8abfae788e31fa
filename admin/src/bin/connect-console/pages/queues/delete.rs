//! Deleting all dead letters of a queue.

use super::queue;
use crate::context::{Change, View};
use crate::failure::Failure;
use crate::format::number;
use crate::layout;
use crate::pages::form::confirmation;
use crate::response::redirect;
use admin::SilentObserver;
use admin::queues::DeadLetterDeletion;
use maud::html;
use warp::reply::Response;

pub(crate) async fn confirm(view: View<'_>) -> Result<Response, Failure> {
    let queue = queue(&view)?;
    let broker = view.app.broker().await?;
    let counted = DeadLetterDeletion::begin(&broker.connection, queue).await.map(|drop| drop.count());
    broker.close().await;
    let count = number(counted?.into());
    let page = format!("/queues/{}", queue.as_str());
    let question =
        html! { p { strong { (count) } " dead letters are deleted for good. What they contain is lost." } };
    let content = confirmation(&format!("{page}/drop"), "Delete them for good", &page, &question);
    Ok(layout::page(&view, &format!("Delete the dead letters of {}?", queue.as_str()), &content))
}

pub(crate) async fn delete(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let queue = queue(&context)?;
    let broker = context.app.broker().await?;
    let (client, actor) = change.operation();
    let dropped = match DeadLetterDeletion::begin(&broker.connection, queue).await {
        Ok(letters) => letters.run(client, actor, &mut SilentObserver).await,
        Err(error) => Err(error),
    };
    broker.close().await;
    dropped?;
    Ok(redirect(&format!("/queues/{}?done=dropped", queue.as_str())))
}
