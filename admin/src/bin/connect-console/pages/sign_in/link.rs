//! Signing in by a link.

use super::{check_limit, signed_in};
use crate::app::App;
use crate::cookies::SESSION;
use crate::csrf::SameOrigin;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::layout;
use crate::request::Request;
use crate::response::html as respond;
use admin::console;
use hyper::StatusCode;
use maud::html;
use warp::reply::Response;

/// The page of a link. It only asks: programs that preview links must not use them up.
pub(crate) async fn offer(app: &App, request: &Request, token: Option<&str>) -> Result<Response, Failure> {
    let token = token.ok_or(Failure::NotFound)?;
    check_limit(&app.link_sign_ins, request)?;
    if !console::is_link_valid(&*app.database.client().await?, token).await? {
        return Ok(refuse(app, request));
    }
    let content = html! {
        p { "This link signs you in on this device. It works once." }
        form method="post" action="/sign-in" {
            input type="hidden" name="token" value=(token);
            button { "Sign in" }
        }
    };
    Ok(respond(StatusCode::OK, layout::bare("Sign in", &content)))
}

/// Uses up the link and begins a session with a new token, whatever cookie the browser had.
pub(crate) async fn sign_in(
    app: &App,
    request: &Request,
    form: Fields,
    _proof: SameOrigin,
) -> Result<Response, Failure> {
    check_limit(&app.link_sign_ins, request)?;
    let replaced = SESSION.read(&request.headers, &app.url);
    let mut client = app.database.client().await?;
    let begun = console::use_link(&mut client, form.get("token"), replaced.as_deref(), app.limits).await?;
    Ok(begun.map_or_else(|| refuse(app, request), |session| signed_in(app, &session)))
}

fn refuse(app: &App, request: &Request) -> Response {
    let why = html! {
        p { "The link has expired, was used already, or was revoked. A link works once, for five minutes, and one for a partner for fifteen. Ask for a new one." }
    };
    super::refuse(&app.link_sign_ins, request, StatusCode::GONE, "This link no longer works", &why)
}
