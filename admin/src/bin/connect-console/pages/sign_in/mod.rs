//! Signing in: by a link, by OpenID Connect, by the headers of a proxy. And signing out.

pub(crate) mod link;
pub(crate) mod openid_connect;
pub(crate) mod out;
pub(crate) mod proxy;
pub(crate) mod start;

use crate::app::App;
use crate::cookies::SESSION;
use crate::failure::Failure;
use crate::layout;
use crate::request::Request;
use crate::response::{html as respond, redirect};
use crate::sign_in_limit::SignInLimit;
use admin::console::{NewSession, VerifiedPerson};
use hyper::StatusCode;
use hyper::header::SET_COOKIE;
use maud::{Markup, html};
use std::net::IpAddr;
use std::time::Instant;
use warp::reply::Response;

/// Refuses an address that has failed too often.
fn check_limit(limit: &SignInLimit<IpAddr>, request: &Request) -> Result<(), Failure> {
    limit.wait(&request.peer, Instant::now()).map_or(Ok(()), |wait| Err(Failure::TooManyAttempts(wait)))
}

/// Counts the sign-in of a person whose identity was verified, and refuses one who signs in too often: each sign-in adds a session
/// and an audit record.
fn check_person(app: &App, person: &VerifiedPerson) -> Result<(), Failure> {
    let (name, now) = (person.name.as_str().to_owned(), Instant::now());
    if let Some(wait) = app.verified_sign_ins.wait(&name, now) {
        return Err(Failure::TooManyAttempts(wait));
    }
    app.verified_sign_ins.count(name, now);
    Ok(())
}

/// The start page, with the cookie of a new session. Nothing in a request names another page to go to.
fn signed_in(app: &App, session: &NewSession) -> Response {
    let mut response = redirect("/");
    response.headers_mut().insert(SET_COOKIE, SESSION.store(session.token.reveal(), &app.url));
    response
}

/// A page that says why somebody is not signed in, which counts as a failed attempt at this way to sign in.
fn refuse(
    limit: &SignInLimit<IpAddr>,
    request: &Request,
    status: StatusCode,
    heading: &str,
    why: &Markup,
) -> Response {
    limit.count(request.peer, Instant::now());
    explain(request, status, heading, why)
}

/// A page that says why somebody is not signed in.
fn explain(request: &Request, status: StatusCode, heading: &str, why: &Markup) -> Response {
    let content = html! {
        (why)
        p { a href="/sign-in" { "Other ways to sign in" } }
        p.soft { "Request id: " code { (request.id) } }
    };
    respond(status, layout::bare(heading, &content))
}

/// The page for somebody whose identity is known, and who may not use Connect.
fn no_access(app: &App, request: &Request, person: &str, verified_by: &str) -> Response {
    let why = html! {
        p { (verified_by) " says that you are " strong { (person) } ". None of your groups gives access to Connect." }
        p { "Ask the operator of Connect for access, or sign in as somebody else." }
    };
    refuse(&app.identity_sign_ins, request, StatusCode::FORBIDDEN, "No access", &why)
}
