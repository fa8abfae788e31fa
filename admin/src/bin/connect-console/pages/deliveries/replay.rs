//! Replaying one delivery (D26).

use super::show::find;
use crate::context::Change;
use crate::failure::Failure;
use crate::response::redirect;
use admin::{SilentObserver, deliveries};
use warp::reply::Response;

pub(crate) async fn replay(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let delivery = find(change.client(), context.tenant()?.id, context.id()?).await?;
    let broker = context.app.broker().await?;
    let id = delivery.id.to_string();
    let (client, actor) = change.operation();
    let replayed = deliveries::replay_one(client, actor, &broker.connection, &id, &mut SilentObserver).await;
    broker.close().await;
    replayed?;
    Ok(redirect(&context.tenant_path(&format!("/deliveries/{id}?done=replayed"))))
}
