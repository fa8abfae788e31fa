//! Stopping a replay job.

use super::show::find;
use crate::context::Change;
use crate::failure::Failure;
use crate::response::redirect;
use admin::{AdminError, deliveries};
use warp::reply::Response;

pub(crate) async fn stop(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let job = find(change.client(), context.tenant()?.id, context.id()?).await?;
    let page = context.tenant_path(&format!("/replays/{}", job.id));
    let (client, actor) = change.operation();
    match deliveries::stop_replay(client, actor, &job.id.to_string()).await {
        Ok(_) => Ok(redirect(&format!("{page}?done=replay-stopped"))),
        // It has ended since the page was shown, which the page says.
        Err(AdminError::ReplayJobNotRunning(_)) => Ok(redirect(&page)),
        Err(error) => Err(error.into()),
    }
}
