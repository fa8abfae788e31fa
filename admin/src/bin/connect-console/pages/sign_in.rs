//! Signing in: by a link, as the person whom a proxy names, and by OpenID Connect; and signing out.

use crate::access::SameOrigin;
use crate::app::App;
use crate::context::Change;
use crate::cookies::{self, SESSION};
use crate::dispatch::session;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::layout;
use crate::openid_connect::{Provider, ProviderError};
use crate::request::Request;
use crate::response::{html as respond, redirect, redirect_to_provider};
use crate::sign_in_limit::SignInLimit;
use admin::console::{self, PendingSignIn, SignIn, VerifiedPerson, find_session, sign_in_person};
use common::log_limit::LogLimit;
use common::sealed::Secret;
use common::{clock, limited};
use hyper::StatusCode;
use hyper::header::SET_COOKIE;
use maud::{Markup, html};
use std::time::Instant;
use warp::reply::Response;

/// Refuses a key that was tried too often.
fn check_limit(limit: &SignInLimit, key: &str) -> Result<(), Failure> {
    limit.wait(key, Instant::now()).map_or(Ok(()), |wait| Err(Failure::TooManyAttempts(wait)))
}

/// Counts the sign-in of a person whose identity was verified, and refuses one who signs in too often: each sign-in adds a session
/// and an audit record.
fn check_person(app: &App, person: &VerifiedPerson) -> Result<(), Failure> {
    check_limit(&app.verified_sign_ins, person.name.as_str())?;
    app.verified_sign_ins.count(person.name.as_str(), Instant::now());
    Ok(())
}

/// The start page, with the cookie of the session with this token. Nothing in a request names another page to go to.
fn signed_in(app: &App, session: &Secret) -> Response {
    let mut response = redirect("/");
    response.headers_mut().insert(SET_COOKIE, SESSION.store(session.reveal(), &app.url));
    response
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
fn no_access(request: &Request, person: &str, verified_by: &str) -> Response {
    let why = html! {
        p { (verified_by) " says that you are " strong { (person) } ". None of your groups gives access to Connect." }
        p { "Ask the operator of Connect for access, or sign in as somebody else." }
    };
    explain(request, StatusCode::FORBIDDEN, "No access", &why)
}

/// Offers the ways to sign in that the settings allow, and says how to get a link.
pub(crate) async fn page(app: &App, request: &Request, _id: Option<&str>) -> Result<Response, Failure> {
    let named = app.proxy.as_ref().map_or(Ok(None), |proxy| proxy.person(request))?;
    let content = html! {
        @if let Some(person) = &named {
            (proxy_form(app, person)?)
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
        p { "Administrators of an agency create links for partners on the page " strong { "Partners" } "." }
    };
    Ok(respond(StatusCode::OK, layout::bare("Sign in", &content)))
}

/// The form of the person whom the proxy names, with the id of a sign-in that begins at most one session (D41).
fn proxy_form(app: &App, person: &VerifiedPerson) -> Result<Markup, Failure> {
    let begun = PendingSignIn::begin(&app.master_keys, clock::now())?;
    Ok(html! {
        form method="post" action="/sign-in/proxy" {
            input type="hidden" name="form" value=(begun.cookie);
            input type="hidden" name="state" value=(begun.state);
            button { "Continue as " (person.name.as_str()) }
        }
    })
}

/// The page of a link. It only asks: programs that preview links must not use them up.
pub(crate) async fn offer_link(app: &App, request: &Request, token: Option<&str>) -> Result<Response, Failure> {
    let token = token.ok_or(Failure::NotFound)?;
    check_limit(&app.link_sign_ins, token)?;
    if !console::is_link_valid(&*app.database.sign_in(&request.database_time).await?, token).await? {
        return Ok(refuse_link(app, request, token));
    }
    let content = html! {
        p { "This link signs you in on this device. It works once." }
        form method="post" action="/sign-in" {
            input type="hidden" name="token" value=(token);
            input type="hidden" name="form" value=(console::new_form_id(token));
            button { "Sign in" }
        }
    };
    Ok(respond(StatusCode::OK, layout::bare("Sign in", &content)))
}

/// Uses up the link and begins a session with a token of its own, whatever cookie the browser had.
pub(crate) async fn by_link(
    app: &App, request: &Request, form: Fields, _proof: SameOrigin,
) -> Result<Response, Failure> {
    let token = form.get("token");
    check_limit(&app.link_sign_ins, token)?;
    let replaced = SESSION.read(&request.headers, &app.url);
    let session = console::link_session(token, form.get("form"))?;
    let mut client = app.database.sign_in(&request.database_time).await?;
    let is_signed_in = console::use_link(&mut client, token, &session, replaced.as_deref()).await?;
    Ok(if is_signed_in { signed_in(app, &session) } else { refuse_link(app, request, token) })
}

/// Says so, and counts it as a failure of this link.
fn refuse_link(app: &App, request: &Request, token: &str) -> Response {
    app.link_sign_ins.count(token, Instant::now());
    let why = html! {
        p { "The link has expired, was used already, or was revoked. A link works once, for five minutes, and one for a partner for fifteen. Ask for a new one." }
    };
    explain(request, StatusCode::GONE, "This link no longer works", &why)
}

/// Begins a session of the person in the headers. It is a form, so that nobody is signed in by opening a page, not even right after
/// signing out. Sent twice it leads to the same session (D41); one that has waited too long leads to a new one. A request without
/// the fields of a form, as of a script behind the proxy, is a sign-in of its own.
pub(crate) async fn by_proxy(
    app: &App, request: &Request, form: Fields, _proof: SameOrigin,
) -> Result<Response, Failure> {
    let proxy = app.proxy.as_ref().ok_or(Failure::NotFound)?;
    // Without the headers the route does not exist: nobody but the proxy can use it.
    let person = proxy.person(request)?.ok_or(Failure::NotFound)?;
    let (id, state) = (form.get("form"), form.get("state"));
    let pending = PendingSignIn::resume(&app.master_keys, id, state, clock::now());
    if pending.is_none() && !id.is_empty() {
        return Ok(redirect("/sign-in"));
    }
    check_person(app, &person)?;
    let replaced = SESSION.read(&request.headers, &app.url);
    let mut client = app.database.sign_in(&request.database_time).await?;
    let attempt = sign_in_person(&mut client, &app.groups, &person, pending.as_ref(), replaced.as_deref()).await?;
    Ok(match attempt {
        SignIn::SignedIn(session) => signed_in(app, &session),
        SignIn::Replayed => redirect("/sign-in"),
        SignIn::NoAccess => no_access(request, person.name.as_str(), "The proxy before Connect"),
    })
}

/// Ends the session.
pub(crate) async fn out(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    console::end_session(change.client(), context.session, context.token).await?;
    Ok(signed_out(context.app))
}

/// Ends all sessions of the person.
pub(crate) async fn out_everywhere(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    console::sign_out_everywhere(change.client(), context.session).await?;
    Ok(signed_out(context.app))
}

fn signed_out(app: &App) -> Response {
    let mut response = redirect("/sign-in");
    response.headers_mut().insert(SET_COOKIE, SESSION.remove(&app.url));
    response
}

/// Longest code of a provider that is redeemed.
const CODE_MAX: usize = 8 * 1024;

/// Bounds the log lines of sign-ins without a code.
static DECLINED: LogLimit<1> = LogLimit::new();

/// Sends the browser to the provider. Stores nothing but a cookie there, so that it may be requested as often as anybody likes.
pub(crate) async fn to_provider(app: &App, request: &Request, _id: Option<&str>) -> Result<Response, Failure> {
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
pub(crate) async fn from_provider(app: &App, request: &Request, _id: Option<&str>) -> Result<Response, Failure> {
    let provider = app.provider.as_ref().ok_or(Failure::NotFound)?;
    let state = request.query.get("state");
    let cookie = cookies::sign_in(state);
    let token = cookie.read(&request.headers, &app.url).unwrap_or_default();
    let Some(pending) = PendingSignIn::resume(&app.master_keys, &token, state, clock::now()) else {
        return not_begun(app, request).await;
    };
    // A callback that is sent twice waits for itself, because its code works once.
    let _under_way = app.callbacks_under_way.enter(state).await?;
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
