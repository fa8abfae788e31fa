//! Removes a subscription, after a confirmation.

use crate::context::{Change, View};
use crate::failure::Failure;
use crate::layout;
use crate::pages::form::confirmation;
use crate::response::redirect;
use admin::subscriptions;
use maud::html;
use warp::reply::Response;

pub(crate) async fn confirm(view: View<'_>) -> Result<Response, Failure> {
    let found = subscriptions::find_in(view.client(), &view.tenant()?.slug, view.id()?).await?;
    let page = view.tenant_path(&format!("/webhooks/{}", found.id));
    let question = html! {
        p { "Nothing more is sent to " code { (found.url) } ", and its pending and dead-lettered deliveries are dropped. This cannot be undone." }
        p { "To stop deliveries for a time without losing any, pause the subscription instead." }
    };
    let content =
        confirmation(&format!("{page}/remove"), "Remove the subscription for good", &page, &question);
    Ok(layout::page(&view, "Remove the subscription?", &content))
}

pub(crate) async fn remove(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let found = subscriptions::find_in(change.client(), &context.tenant()?.slug, context.id()?).await?;
    let (client, actor) = change.operation();
    subscriptions::remove(client, actor, &found.id.to_string()).await?;
    Ok(redirect(&context.tenant_path("/webhooks?done=removed")))
}
