//! Pausing and resuming a subscription (D24).

use crate::context::Change;
use crate::failure::Failure;
use crate::response::redirect;
use admin::subscriptions;
use warp::reply::Response;

pub(crate) async fn pause(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let found = subscriptions::find_in(change.client(), &context.tenant()?.slug, context.id()?).await?;
    let (client, actor) = change.operation();
    subscriptions::pause(client, actor, &found.id.to_string()).await?;
    Ok(redirect(&context.tenant_path(&format!("/webhooks/{}?done=paused", found.id))))
}

pub(crate) async fn resume(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let found = subscriptions::find_in(change.client(), &context.tenant()?.slug, context.id()?).await?;
    let (client, actor) = change.operation();
    subscriptions::resume(client, actor, &found.id.to_string()).await?;
    Ok(redirect(&context.tenant_path(&format!("/webhooks/{}?done=resumed", found.id))))
}
