//! Changing the scopes of a key.

use super::show;
use crate::context::Change;
use crate::failure::Failure;
use crate::pages::form::Faults;
use crate::response::redirect;
use admin::input::KeyScopes;
use admin::keys;
use hyper::StatusCode;
use warp::reply::Response;

pub(crate) async fn set(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let key = keys::find_in(change.client(), context.tenant()?.id, context.id()?).await?;
    let (mut faults, typed) = (Faults::none(), change.form().list("scopes"));
    let Some(scopes) = faults.check("scopes", KeyScopes::parse(&typed)) else {
        return show::with_faults(change.view(), StatusCode::UNPROCESSABLE_ENTITY, Some(typed), &faults)
            .await;
    };
    let (client, actor) = change.operation();
    keys::set_scopes(client, actor, &key.prefix, &scopes).await?;
    Ok(redirect(&context.tenant_path(&format!("/keys/{}?done=scopes", key.prefix))))
}
