//! Signing in by OpenID Connect: to the provider, and back.

use super::{check_limit, check_person, explain, no_access, signed_in};
use crate::app::App;
use crate::cookies::{self, SESSION};
use crate::dispatch::session;
use crate::failure::Failure;
use crate::openid_connect::{Provider, ProviderError};
use crate::request::Request;
use crate::response::{redirect, redirect_to_provider};
use admin::console::{PendingSignIn, SignIn, find_session, sign_in_person};
use common::log_limit::LogLimit;
use common::{clock, limited};
use hyper::StatusCode;
use hyper::header::SET_COOKIE;
use maud::{Markup, html};
use std::time::Instant;
use warp::reply::Response;

/// Longest code of a provider that is redeemed.
const CODE_MAX: usize = 8 * 1024;

/// Bounds the log lines of sign-ins without a code.
static DECLINED: LogLimit<1> = LogLimit::new();

/// Sends the browser to the provider. Stores nothing but a cookie there, so that it may be requested as often as anybody likes.
pub(crate) async fn begin(app: &App, request: &Request, _id: Option<&str>) -> Result<Response, Failure> {
    let provider = app.provider.as_ref().ok_or(Failure::NotFound)?;
    let pending = PendingSignIn::begin(&app.master_keys, clock::now())?;
    let url = provider.authorization_url(&pending).await.map_err(Failure::Provider)?;
    let mut response = redirect_to_provider(&url);
    let headers = response.headers_mut();
    headers.insert(SET_COOKIE, cookies::sign_in(&pending.state).store(&pending.cookie, &app.url));
    for removed in cookies::remove_surplus_sign_ins(&request.headers, &app.url) {
        headers.append(SET_COOKIE, removed);
    }
    Ok(response)
}

/// The page that the provider redirects to: begins a session, if the browser has a cookie that belongs to the state in the URL,
/// and returns to that session if the page is requested again. That cookie is removed, unless a later try may succeed.
pub(crate) async fn complete(app: &App, request: &Request, _id: Option<&str>) -> Result<Response, Failure> {
    let provider = app.provider.as_ref().ok_or(Failure::NotFound)?;
    let state = request.query.get("state");
    let cookie = cookies::sign_in(state);
    let token = cookie.read(&request.headers, &app.url).unwrap_or_default();
    let Some(pending) = PendingSignIn::resume(&app.master_keys, &token, state, clock::now()) else {
        return not_begun(app, request).await;
    };
    // A callback that is sent twice waits for itself, because its code works once.
    let _under_way = app.callbacks_under_way.enter(state).await;
    let is_completed = async || -> Result<bool, Failure> {
        let client = app.database.sign_in(&request.database_time).await?;
        Ok(find_session(&client, pending.session.reveal(), false).await?.is_some())
    };
    let completed = if is_completed().await? {
        Ok(signed_in(app, &pending.session))
    } else {
        redeem(app, provider, request, &pending).await
    };
    let mut response = match completed {
        // Another copy of the console has used up the code.
        Err(Failure::Provider(ProviderError::Refused(_))) if is_completed().await? => signed_in(app, &pending.session),
        completed => completed.unwrap_or_else(|failure| failure.into_response(request.id)),
    };
    if response.status() != StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().append(SET_COOKIE, cookie.remove(&app.url));
    }
    Ok(response)
}

/// The response to a callback of no sign-in of this browser, which changes nothing: any page can send a browser here. Somebody who
/// is signed in may have come back to a page that has signed them in.
async fn not_begun(app: &App, request: &Request) -> Result<Response, Failure> {
    if SESSION.read(&request.headers, &app.url).is_some()
        && session(app, request, &*app.database.sign_in(&request.database_time).await?, true).await?.is_some()
    {
        return Ok(redirect("/"));
    }
    let why = html! {
        p { "This browser has not begun this sign-in, or began it more than ten minutes ago. Begin again." }
    };
    Ok(refuse(request, &why))
}

async fn redeem(
    app: &App, provider: &Provider, request: &Request, pending: &PendingSignIn,
) -> Result<Response, Failure> {
    check_limit(&app.callbacks, &pending.state)?;
    app.callbacks.count(&pending.state, Instant::now());
    let query = &request.query;
    if query.optional("iss").is_some_and(|issuer| issuer != provider.issuer()) {
        let why = "must be CONNECT_OIDC_ISSUER";
        return Err(Failure::Provider(ProviderError::Unusable { field: "iss", why: why.to_owned() }));
    }
    if let error @ ("temporarily_unavailable" | "server_error") = query.get("error") {
        return Err(Failure::Provider(ProviderError::Unavailable(format!("the provider says {error}"))));
    }
    let Some(code) = query.optional("code").filter(|code| code.len() <= CODE_MAX) else {
        // The provider's own words are not repeated: whoever sends the browser here could choose them.
        limited!(DECLINED[0], warn, request_id = %request.id, "OpenID Connect provider sent no code; responding 403");
        return Ok(refuse(
            request,
            &html! {
                p { (provider.host()) " has not signed you in: you declined, or it does not allow you to use Connect." }
            },
        ));
    };
    let person = provider.person(pending, code).await.map_err(Failure::Provider)?;
    check_person(app, &person)?;
    let replaced = SESSION.read(&request.headers, &app.url);
    let mut client = app.database.sign_in(&request.database_time).await?;
    let attempt = sign_in_person(&mut client, &app.groups, &person, Some(pending), replaced.as_deref()).await?;
    Ok(match attempt {
        SignIn::SignedIn(session) => signed_in(app, &session),
        SignIn::NoAccess => no_access(request, person.name.as_str(), provider.host()),
        SignIn::Replayed => refuse(request, &html! { p { "This sign-in was completed before. Begin again." } }),
    })
}

fn refuse(request: &Request, why: &Markup) -> Response {
    explain(request, StatusCode::FORBIDDEN, "You are not signed in", why)
}
