//! Signing in as the person whom a proxy names.

use super::{check_limit, check_person, no_access, signed_in};
use crate::app::App;
use crate::cookies::SESSION;
use crate::csrf::SameOrigin;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::request::Request;
use admin::console::{SignIn, sign_in_person};
use warp::reply::Response;

/// Begins a session of the person in the headers. It is a form, so that nobody is signed in by opening a page, not even right after
/// signing out.
pub(crate) async fn sign_in(
    app: &App,
    request: &Request,
    _form: Fields,
    _proof: SameOrigin,
) -> Result<Response, Failure> {
    let proxy = app.proxy.as_ref().ok_or(Failure::NotFound)?;
    check_limit(&app.identity_sign_ins, request)?;
    // Without the headers the route does not exist: nobody but the proxy can use it.
    let person = proxy.person(request)?.ok_or(Failure::NotFound)?;
    check_person(app, &person)?;
    let replaced = SESSION.read(&request.headers, &app.url);
    let mut client = app.database.client().await?;
    let attempt =
        sign_in_person(&mut client, &app.groups, &person, None, replaced.as_deref(), app.limits).await?;
    match attempt {
        SignIn::SignedIn(session) => Ok(signed_in(app, &session)),
        SignIn::NoAccess | SignIn::Replayed => {
            Ok(no_access(app, request, person.name.as_str(), "The proxy before Connect"))
        }
    }
}
