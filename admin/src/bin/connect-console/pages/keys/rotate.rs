//! Replacing the secret of a key (D33).

use super::{secret, show};
use crate::context::Change;
use crate::failure::Failure;
use crate::layout;
use crate::pages::form::Faults;
use crate::response::redirect;
use admin::{AdminError, keys};
use common::settings::SettingValue as _;
use hyper::StatusCode;
use maud::html;
use std::time::Duration;
use warp::reply::Response;

/// Creates a new secret and shows it once.
pub(crate) async fn rotate(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let tenant = context.tenant()?;
    let key = keys::find_in(change.client(), tenant.id, context.id()?).await?;
    let mut faults = Faults::none();
    let Some(overlap) = faults.check("overlap", overlap(change.form().optional("overlap"))) else {
        return show::with_faults(change.view(), StatusCode::UNPROCESSABLE_ENTITY, None, &faults).await;
    };
    let (client, actor) = change.operation();
    let masters = &context.app.master_keys;
    let rotated = keys::rotate_secret(client, actor, masters, &key.prefix, overlap).await?;
    let page = context.tenant_path(&format!("/keys/{}", key.prefix));
    let content = html! {
        (secret(&rotated.prefix, &rotated.secret, &tenant.slug))
        @if overlap.is_some() {
            p { "The old secret is still accepted. End the overlap when nobody signs with it any more: the page of the key shows its last use." }
            form method="post" action={ (page) "/end-overlap" } {
                div.actions { button.danger { "End the overlap now" } a.button.plain href=(page) { "To the key" } }
            }
        } @else {
            p { "The old secret is refused from now on. " a href=(page) { "To the key" } }
        }
    };
    Ok(layout::page(&change.view(), "The secret was replaced", &content))
}

fn overlap(text: Option<&str>) -> Result<Option<Duration>, AdminError> {
    let parsed = text.map(Duration::parse_setting).transpose();
    parsed.map_err(|what| AdminError::InvalidInput(format!("overlap {what}")))
}

/// Makes the old secret invalid.
pub(crate) async fn end_overlap(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let key = keys::find_in(change.client(), context.tenant()?.id, context.id()?).await?;
    let (client, actor) = change.operation();
    keys::end_overlap(client, actor, &key.prefix).await?;
    Ok(redirect(&context.tenant_path(&format!("/keys/{}?done=overlap-ended", key.prefix))))
}
