//! The page on which signing in begins.

use crate::app::App;
use crate::failure::Failure;
use crate::layout;
use crate::request::Request;
use crate::response::html as respond;
use hyper::StatusCode;
use maud::html;
use warp::reply::Response;

/// Offers the ways to sign in that the settings allow, and says how to get a link.
pub(crate) async fn page(app: &App, request: &Request, _id: Option<&str>) -> Result<Response, Failure> {
    let named = app.proxy.as_ref().map_or(Ok(None), |proxy| proxy.person(request))?;
    let content = html! {
        @if let Some(person) = &named {
            form method="post" action="/sign-in/proxy" { button { "Continue as " (person.name.as_str()) } }
        }
        @if let Some(provider) = &app.provider {
            p { a.button href="/sign-in/oidc" { "Sign in with " (provider.host()) } }
        }
        @if named.is_some() || app.provider.is_some() { h2 { "With a link" } }
        p { "You sign in with a link that works once, for five minutes. Ask the operator of Connect for one." }
        p { "Operators create links with the command line, for themselves or for an agency:" }
        pre role="group" aria-label="Commands" tabindex="0" { code {
            "connectctl console login --role operator\n"
            "connectctl console login --tenant acme --role admin --name 'Ada Byron'\n"
            "connectctl console login --tenant acme --role viewer"
        } }
        p { "Administrators of an agency create links for partners on the page " strong { "Agency" } "." }
    };
    Ok(respond(StatusCode::OK, layout::bare("Sign in", &content)))
}
