//! Changing the event types of a subscription.

use crate::context::Change;
use crate::failure::Failure;
use crate::response::redirect;
use admin::input::EventTypes;
use admin::subscriptions;
use warp::reply::Response;

pub(crate) async fn set(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let found = subscriptions::find_in(change.client(), &context.tenant()?.slug, context.id()?).await?;
    let given = change.form().list("events");
    // The page offers a list, so another value was not chosen there.
    let events = (!given.is_empty()).then(|| EventTypes::parse(&given)).transpose();
    let events = events.map_err(|_| Failure::BadRequest("choose event types of the page"))?;
    let (client, actor) = change.operation();
    subscriptions::set_events(client, actor, &found.id.to_string(), events.as_ref()).await?;
    Ok(redirect(&context.tenant_path(&format!("/webhooks/{}?done=events", found.id))))
}
