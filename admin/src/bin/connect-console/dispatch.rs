//! From a request to its response: route, check of origin, session, rights, handler.

use crate::access::{Access, Denial, SameOrigin, authorize, check_origin};
use crate::app::App;
use crate::context::{Change, Context, View};
use crate::cookies::SESSION;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::request::{Request, parse_form};
use crate::response::{add_headers, redirect};
use crate::routes::{Found, Handler, Verb, find};
use admin::console::{Session, SignInMethod, find_session};
use admin::tenants;
use bytes::Bytes;
use common::metrics::{CONSOLE_DURATION, CONSOLE_REQUESTS};
use hyper::Method;
use std::time::Instant;
use tokio_postgres::Client;
use warp::reply::Response;

/// The label of requests that no route matches.
const NO_ROUTE: &str = "none";

/// Responds to a request whose body was read.
pub(crate) async fn respond(app: &App, request: &Request, body: Result<Bytes, Failure>) -> Response {
    let begun = Instant::now();
    let mut label = NO_ROUTE;
    let handled = handle(app, request, body, &mut label).await;
    let response = handled.unwrap_or_else(|failure| failure.into_response(request.id));
    finish(app, request, label, begun, response)
}

/// The response to a request whose handler has panicked.
pub(crate) fn respond_after_panic(app: &App, request: &Request) -> Response {
    let response = Failure::Panicked.into_response(request.id);
    finish(app, request, NO_ROUTE, Instant::now(), response)
}

fn finish(
    app: &App,
    request: &Request,
    label: &'static str,
    begun: Instant,
    mut response: Response,
) -> Response {
    add_headers(app, request.id, response.headers_mut());
    let method = if request.method == Method::POST { "POST" } else { "GET" };
    let status = response.status().as_str().to_owned();
    metrics::counter!(CONSOLE_REQUESTS, "route" => label, "method" => method, "status" => status)
        .increment(1);
    metrics::histogram!(CONSOLE_DURATION, "route" => label).record(begun.elapsed().as_secs_f64());
    response
}

async fn handle(
    app: &App,
    request: &Request,
    body: Result<Bytes, Failure>,
    label: &mut &'static str,
) -> Result<Response, Failure> {
    let found = find(&request.method, &request.path)?;
    *label = found.route.pattern;
    // Only this code makes the proof and the form, and a handler that changes something needs both.
    let posted = match found.route.verb() {
        Verb::Get => None,
        Verb::Post => Some((
            check_origin(&request.headers, app.url.origin()).ok_or(Failure::CrossSite)?,
            parse_form(&request.headers, &body?)?,
        )),
    };
    if found.route.access == Access::Public {
        return public(app, request, &found, posted).await;
    }
    let mut client = app.database.client().await?;
    // What assets/console.js sends; a person's own requests do not have it.
    let is_refresh = posted.is_none() && request.headers.contains_key("x-refresh");
    let Some((session, token)) = session(app, request, &client, is_refresh).await? else {
        return if posted.is_none() { Ok(redirect("/sign-in")) } else { Err(Failure::NotSignedIn) };
    };
    authorize(found.route.access, &session, found.tenant).map_err(|denial| match denial {
        Denial::ForeignTenant => Failure::NotFound,
        Denial::Role => Failure::Forbidden,
    })?;
    let tenant = match found.tenant {
        Some(slug) => Some(tenants::settings(&client, slug).await?),
        None => None,
    };
    let context = Context::new(app, request, (&session, &token), tenant.as_ref(), found.id);
    match (found.route.handler, posted) {
        (Handler::Page(page), None) => page(View::new(context, &client)).await,
        (Handler::Inspection(page), Some((_, form))) => page(View::new(context, &client), form).await,
        (Handler::Change(change), Some((proof, form))) => {
            change(Change::new(proof, context, &mut client, form)).await
        }
        (
            Handler::Page(_)
            | Handler::Inspection(_)
            | Handler::Change(_)
            | Handler::Public(_)
            | Handler::SignIn(_),
            _,
        ) => Err(Failure::NotFound),
    }
}

/// The session of a request, with its token, unless it began with the headers of a proxy that names somebody else now.
pub(crate) async fn session(
    app: &App,
    request: &Request,
    client: &Client,
    is_refresh: bool,
) -> Result<Option<(Session, String)>, Failure> {
    let Some(token) = SESSION.read(&request.headers, &app.url) else { return Ok(None) };
    let Some(session) = find_session(client, &token, is_refresh).await? else { return Ok(None) };
    if session.method != SignInMethod::Proxy {
        return Ok(Some((session, token)));
    }
    // Without the settings of the proxy nobody confirms the session.
    let confirmed =
        app.proxy.as_ref().map_or(Ok(false), |proxy| proxy.confirms(request, &session, &app.groups));
    Ok(confirmed?.then_some((session, token)))
}

/// Routes that need no session.
async fn public(
    app: &App,
    request: &Request,
    found: &Found<'_>,
    posted: Option<(SameOrigin, Fields)>,
) -> Result<Response, Failure> {
    match (found.route.handler, posted) {
        (Handler::Public(page), None) => page(app, request, found.id).await,
        (Handler::SignIn(sign_in), Some((proof, form))) => sign_in(app, request, form, proof).await,
        (
            Handler::Page(_)
            | Handler::Inspection(_)
            | Handler::Change(_)
            | Handler::Public(_)
            | Handler::SignIn(_),
            _,
        ) => Err(Failure::NotFound),
    }
}
