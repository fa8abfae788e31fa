//! Signing out.

use crate::app::App;
use crate::context::Change;
use crate::cookies::SESSION;
use crate::failure::Failure;
use crate::response::redirect;
use admin::console;
use hyper::header::SET_COOKIE;
use warp::reply::Response;

/// Ends the session.
pub(crate) async fn here(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    console::end_session(change.client(), context.session, context.token).await?;
    Ok(signed_out(context.app))
}

/// Ends all sessions of the person.
pub(crate) async fn everywhere(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    console::sign_out_everywhere(change.client(), context.session).await?;
    Ok(signed_out(context.app))
}

fn signed_out(app: &App) -> Response {
    let mut response = redirect("/sign-in");
    response.headers_mut().insert(SET_COOKIE, SESSION.remove(&app.url));
    response
}
