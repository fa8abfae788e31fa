//! Revoking a key, after a question that names its last use.

use crate::context::{Change, View};
use crate::failure::Failure;
use crate::format::time_text;
use crate::layout;
use crate::pages::form::confirmation;
use crate::response::redirect;
use admin::keys;
use maud::html;
use warp::reply::Response;

pub(crate) async fn confirm(view: View<'_>) -> Result<Response, Failure> {
    let key = keys::find_in(view.client(), view.tenant()?.id, view.id()?).await?;
    let page = view.tenant_path(&format!("/keys/{}", key.prefix));
    let question = html! {
        p {
            @match &key.last_used_at {
                Some(at) => strong { "The key was last used " (time_text(at)) ". " },
                None => "No use of the key is recorded. ",
            }
            "Requests that are signed with it will get 401 within a second. This cannot be undone."
        }
        @if !key.safe_to_revoke { p { "Somebody may still use it. Are you sure?" } }
    };
    let content = confirmation(&format!("{page}/revoke"), "Revoke the key for good", &page, &question);
    Ok(layout::page(&view, &format!("Revoke {}?", key.name), &content))
}

pub(crate) async fn revoke(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let key = keys::find_in(change.client(), context.tenant()?.id, context.id()?).await?;
    let (client, actor) = change.operation();
    keys::revoke(client, actor, &key.prefix).await?;
    Ok(redirect(&context.tenant_path(&format!("/keys/{}?done=revoked", key.prefix))))
}
