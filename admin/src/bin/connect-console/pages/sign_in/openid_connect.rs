//! Signing in by OpenID Connect: to the provider, and back.

use super::{check_limit, check_person, explain, no_access, signed_in};
use crate::app::App;
use crate::cookies::{SESSION, SIGN_IN};
use crate::failure::Failure;
use crate::openid_connect::ProviderError;
use crate::request::Request;
use crate::response::redirect_to_provider;
use admin::console::{OneTimeSignIn, PendingSignIn, SignIn, sign_in_person};
use common::clock;
use common::limited;
use common::log_limit::LogLimit;
use hyper::StatusCode;
use hyper::header::SET_COOKIE;
use maud::{Markup, html};
use warp::reply::Response;

/// Longest code of a provider that is redeemed.
const CODE_MAX: usize = 8 * 1024;

/// Bounds the log lines of sign-ins that the provider or its token refuses.
static REFUSALS: LogLimit<1> = LogLimit::new();

/// Sends the browser to the provider. Stores nothing but a cookie there, so that it may be requested as often as anybody likes.
pub(crate) async fn begin(app: &App, request: &Request, _id: Option<&str>) -> Result<Response, Failure> {
    let provider = app.provider.as_ref().ok_or(Failure::NotFound)?;
    check_limit(&app.identity_sign_ins, request)?;
    let pending = PendingSignIn::begin(&app.master_keys, clock::now())?;
    let url = provider.authorization_url(&pending).await.map_err(Failure::Provider)?;
    let mut response = redirect_to_provider(&url);
    response.headers_mut().insert(SET_COOKIE, SIGN_IN.store(&pending.cookie, &app.url));
    Ok(response)
}

/// The page that the provider redirects to: begins a session, if the browser's cookie belongs to the state in the URL. The
/// cookie is removed, whatever comes of it.
pub(crate) async fn complete(app: &App, request: &Request, _id: Option<&str>) -> Result<Response, Failure> {
    if app.provider.is_none() {
        return Err(Failure::NotFound);
    }
    check_limit(&app.identity_sign_ins, request)?;
    let completed = redeem(app, request).await;
    let mut response = completed.unwrap_or_else(|failure| failure.into_response(request.id));
    response.headers_mut().append(SET_COOKIE, SIGN_IN.remove(&app.url));
    Ok(response)
}

async fn redeem(app: &App, request: &Request) -> Result<Response, Failure> {
    let provider = app.provider.as_ref().ok_or(Failure::NotFound)?;
    let query = &request.query;
    let cookie = SIGN_IN.read(&request.headers, &app.url).unwrap_or_default();
    let Some(pending) = PendingSignIn::resume(&app.master_keys, &cookie, query.get("state"), clock::now())
    else {
        // Not a failed attempt: any page can send a browser here, and the state is a MAC that nobody guesses.
        let why = html! {
            p { "This browser has not begun this sign-in, or began it more than ten minutes ago. Begin again." }
        };
        return Ok(explain(request, StatusCode::FORBIDDEN, "You are not signed in", &why));
    };
    let is_other_issuer = query.optional("iss").is_some_and(|issuer| issuer != provider.issuer());
    let Some(code) = query.optional("code").filter(|code| code.len() <= CODE_MAX && !is_other_issuer) else {
        // The provider's own words are not repeated: whoever sends the browser here could choose them.
        log_refusal(request, "the provider sent no code");
        return Ok(refuse(
            app,
            request,
            &html! {
                p { (provider.host()) " has not signed you in: you declined, or it does not allow you to use Connect." }
            },
        ));
    };
    let person = match provider.person(&pending, code).await {
        Ok(person) => person,
        Err(ProviderError::Refused(why)) => {
            log_refusal(request, &why);
            return Ok(refuse(
                app,
                request,
                &html! {
                    p { "The answer of " (provider.host()) " is not valid for this sign-in. Begin again. If that does not help, give the id below to the operator of Connect." }
                },
            ));
        }
        Err(error @ ProviderError::Unavailable(_)) => return Err(Failure::Provider(error)),
    };
    check_person(app, &person)?;
    let replaced = SESSION.read(&request.headers, &app.url);
    let one_time = OneTimeSignIn { state: &pending.state, expires_at: pending.expires_at };
    let mut client = app.database.client().await?;
    let attempt =
        sign_in_person(&mut client, &app.groups, &person, Some(one_time), replaced.as_deref()).await?;
    Ok(match attempt {
        SignIn::SignedIn(session) => signed_in(app, &session),
        SignIn::NoAccess => no_access(app, request, person.name.as_str(), &provider.host()),
        SignIn::Replayed => {
            refuse(app, request, &html! { p { "This sign-in was completed before. Begin again." } })
        }
    })
}

fn refuse(app: &App, request: &Request, why: &Markup) -> Response {
    super::refuse(&app.identity_sign_ins, request, StatusCode::FORBIDDEN, "You are not signed in", why)
}

fn log_refusal(request: &Request, error: &str) {
    limited!(REFUSALS[0], warn, request_id = %request.id, error, "sign-in by OpenID Connect refused; responding 403");
}
