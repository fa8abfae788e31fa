//! Dropping all dead letters of a queue.

use super::queue;
use crate::context::{Change, View};
use crate::failure::Failure;
use crate::format::number;
use crate::layout;
use crate::pages::form::confirmation;
use crate::response::redirect;
use admin::SilentObserver;
use admin::queues::DeadLetterDrop;
use maud::html;
use warp::reply::Response;

pub(crate) async fn confirm(view: View<'_>) -> Result<Response, Failure> {
    let queue = queue(&view)?;
    let broker = view.app.broker().await?;
    let counted = DeadLetterDrop::prepare(&broker.connection, queue).await.map(|letters| letters.count());
    broker.close().await;
    let count = number(counted?.into());
    let page = format!("/queues/{}", queue.as_str());
    let question =
        html! { p { "Dead letters to drop: " strong { (count) } ". Their content is lost for good." } };
    let content = confirmation(&format!("{page}/drop"), "Drop them for good", &page, &question);
    Ok(layout::page(&view, &format!("Drop the dead letters of {}?", queue.as_str()), &content))
}

pub(crate) async fn drop_all(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let queue = queue(&context)?;
    let broker = context.app.broker().await?;
    let (client, actor) = change.operation();
    let dropped = match DeadLetterDrop::prepare(&broker.connection, queue).await {
        Ok(letters) => letters.run(client, actor, &mut SilentObserver).await,
        Err(error) => Err(error),
    };
    broker.close().await;
    dropped?;
    Ok(redirect(&format!("/queues/{}?done=dropped", queue.as_str())))
}
