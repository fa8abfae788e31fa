//! Replacing the signing secret of a subscription.

use super::secret;
use crate::context::Change;
use crate::failure::Failure;
use crate::layout;
use admin::subscriptions;
use common::settings::SettingValue as _;
use maud::html;
use std::time::Duration;
use warp::reply::Response;

pub(crate) async fn rotate(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let found = subscriptions::find_in(change.client(), &context.tenant()?.slug, context.id()?).await?;
    // The page offers a list, so another value was not chosen there.
    let overlap = change.form().optional("overlap").map(Duration::parse_setting).transpose();
    let overlap = overlap.map_err(|_| Failure::BadRequest("overlap must be a duration such as 24h"))?;
    let (masters, id) = (&context.app.master_keys, found.id.to_string());
    let (client, actor) = change.operation();
    let rotated = subscriptions::rotate_secret(client, actor, masters, &id, overlap).await?;
    let content = html! {
        (secret(&rotated.secret))
        p { a href=(context.tenant_path(&format!("/webhooks/{id}"))) { "To the subscription" } }
    };
    Ok(layout::page(&change.view(), "The signing secret was replaced", &content))
}
