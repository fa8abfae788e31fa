//! From a request to its response: route, check of origin, session, rights, handler.

use crate::access::{Access, Denial, SameOrigin, authorize, check_origin};
use crate::app::App;
use crate::context::{Change, Context, View};
use crate::cookies::SESSION;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::layout;
use crate::pages::form::FORM_ID;
use crate::request::{Request, parse_form};
use crate::response::{add_headers, redirect};
use crate::routes::{Found, Handler, Verb, find};
use admin::console::{FormResult, SentForm, Session, SignInMethod, find_session};
use admin::tenants;
use bytes::Bytes;
use common::metrics::CONSOLE_REQUESTS;
use hyper::Method;
use maud::html;
use tokio_postgres::Client;
use warp::reply::Response;

/// The label of requests that no route matches.
const NO_ROUTE: &str = "none";

/// Responds to a request. `body` reads its body, which is small if the route is public.
pub(crate) async fn respond(
    app: &App, request: &Request, body: impl AsyncFnOnce(bool) -> Result<Bytes, Failure>,
) -> Response {
    let mut label = NO_ROUTE;
    let handled = request.database_time.limit(handle(app, request, body, &mut label)).await;
    let handled = handled.map_err(Failure::from).flatten();
    let response = handled.unwrap_or_else(|failure| failure.into_response(request.id));
    finish(app, request, label, response)
}

/// The response to a request whose handler has panicked.
pub(crate) fn respond_after_panic(app: &App, request: &Request) -> Response {
    let response = Failure::Panicked.into_response(request.id);
    finish(app, request, NO_ROUTE, response)
}

/// The response to a request of a peer whose share is used up.
pub(crate) fn respond_overloaded(app: &App, request: &Request) -> Response {
    let response = Failure::Overloaded.into_response(request.id);
    finish(app, request, NO_ROUTE, response)
}

fn finish(app: &App, request: &Request, label: &'static str, mut response: Response) -> Response {
    add_headers(app, request.id, response.headers_mut());
    let method = if request.method == Method::POST { "POST" } else { "GET" };
    let status = response.status().as_str().to_owned();
    metrics::counter!(CONSOLE_REQUESTS, "route" => label, "method" => method, "status" => status).increment(1);
    response
}

async fn handle(
    app: &App, request: &Request, body: impl AsyncFnOnce(bool) -> Result<Bytes, Failure>, label: &mut &'static str,
) -> Result<Response, Failure> {
    let found = match find(&request.method, &request.path) {
        Ok(found) => found,
        Err(failure) => return Ok(without_route(app, request, failure).await),
    };
    *label = found.route.pattern;
    // Only this code makes the proof and the form, and a handler that changes something needs both.
    let proof = match found.route.verb() {
        Verb::Get => None,
        Verb::Post => Some(check_origin(&request.headers, app.url.origin()).ok_or(Failure::CrossSite)?),
    };
    let is_public = found.route.access == Access::Public;
    let form = async || parse_form(&request.headers, &body(is_public).await?);
    if is_public {
        let posted = match proof {
            Some(proof) => Some((proof, form().await?)),
            None => None,
        };
        return public(app, request, &found, posted).await;
    }
    let client = app.database.sign_in(&request.database_time).await?;
    // What assets/console.js sends; a person's own requests do not have it.
    let is_refresh = proof.is_none() && request.headers.contains_key("x-refresh");
    let Some((session, token)) = session(app, request, &client, is_refresh).await? else {
        // A form that signs out has acted if nobody is signed in.
        let is_refused = proof.is_some() && found.route.access != Access::SignedIn;
        return if is_refused { Err(Failure::NotSignedIn) } else { Ok(redirect("/sign-in")) };
    };
    // No connection is held while the body arrives.
    drop(client);
    let context = Context::new(app, request, (&session, &token), None, found.id);
    let shown = signed_in(context, &found, async || match proof {
        None => Ok(None),
        Some(proof) => Ok(Some((proof, form().await?))),
    });
    Ok(shown.await.unwrap_or_else(|failure| failure.into_response_to(&context)))
}

/// Says that no route matches, to somebody who is signed in with the menu.
async fn without_route(app: &App, request: &Request, failure: Failure) -> Response {
    let session = async {
        SESSION.read(&request.headers, &app.url)?;
        let client = app.database.sign_in(&request.database_time).await.ok()?;
        session(app, request, &client, true).await.ok()?
    };
    match session.await {
        Some((session, token)) => failure.into_response_to(&Context::new(app, request, (&session, &token), None, None)),
        None => failure.into_response(request.id),
    }
}

/// Responds to somebody who is signed in. `posted` reads the form.
async fn signed_in(
    context: Context<'_>, found: &Found<'_>,
    posted: impl AsyncFnOnce() -> Result<Option<(SameOrigin, Fields)>, Failure>,
) -> Result<Response, Failure> {
    let Context { app, request, session, token, .. } = context;
    authorize(found.route.access, session, found.tenant).map_err(|denial| match denial {
        Denial::ForeignTenant => Failure::NotFound,
        Denial::Role => Failure::Forbidden,
    })?;
    let posted = posted().await?;
    if let Handler::BrokerPage(page) = found.route.handler {
        return page(context).await;
    }
    let client = context.lease().await?;
    if posted.is_some() {
        // It may have ended meanwhile.
        self::session(app, request, &client, false).await?.ok_or(Failure::NotSignedIn)?;
    }
    let tenant = match found.tenant {
        Some(slug) => Some(tenants::settings(&client, slug).await?),
        None => None,
    };
    let context = Context::new(app, request, (session, token), tenant.as_ref(), found.id);
    let shown = match (found.route.handler, posted) {
        (Handler::Page(page), None) => page(View::new(context, &client)).await,
        (Handler::Inspection(page), Some((_, form))) => page(View::new(context, &client), form).await,
        (Handler::Change(change), Some((proof, form))) => {
            let content = format!("{} {form:?}", request.path);
            let sent = SentForm::verify(session, token, form.get(FORM_ID), &content);
            let sent = sent.ok_or(Failure::CrossSite)?;
            if let Some(result) = sent.result(&client).await? {
                return Ok(repeated(&View::new(context, &client), &result));
            }
            let changed = change(Change::new(proof, context, client, form, sent.clone())).await;
            let status = changed.as_ref().map_or_else(Failure::status, Response::status);
            // Perhaps because another request with the same form has acted meanwhile.
            if status.is_client_error() {
                let client = context.lease().await?;
                if let Some(result) = sent.result(&client).await? {
                    return Ok(repeated(&View::new(context, &client), &result));
                }
            }
            changed
        }
        (
            Handler::Page(_)
            | Handler::BrokerPage(_)
            | Handler::Inspection(_)
            | Handler::Change(_)
            | Handler::Public(_)
            | Handler::SignIn(_),
            _,
        ) => Err(Failure::NotFound),
    };
    Ok(shown.unwrap_or_else(|failure| failure.into_response_to(&context)))
}

/// What a form shows that has acted already (D41): the same page, without the secret that it has shown.
fn repeated(view: &View<'_>, result: &FormResult) -> Response {
    let Some(heading) = &result.heading else { return redirect(&result.page) };
    let content = html! {
        p.alert role="alert" { "This form was sent before, and has acted once. What it made was shown then, and cannot be shown again." }
        p { "If nobody has noted it, make another one on " a href=(result.page) { "this page" } "." }
    };
    layout::page(view, heading, &content)
}

/// The session of a request, with its token, unless it began with the headers of a proxy that names somebody else now.
pub(crate) async fn session(
    app: &App, request: &Request, client: &Client, is_refresh: bool,
) -> Result<Option<(Session, String)>, Failure> {
    let Some(token) = SESSION.read(&request.headers, &app.url) else { return Ok(None) };
    let Some(session) = find_session(client, &token, is_refresh).await? else { return Ok(None) };
    if session.method != SignInMethod::Proxy {
        return Ok(Some((session, token)));
    }
    // Without the settings of the proxy nobody confirms the session.
    let confirmed = app.proxy.as_ref().map_or(Ok(false), |proxy| proxy.confirms(request, &session, &app.groups));
    Ok(confirmed?.then_some((session, token)))
}

/// Routes that need no session.
async fn public(
    app: &App, request: &Request, found: &Found<'_>, posted: Option<(SameOrigin, Fields)>,
) -> Result<Response, Failure> {
    match (found.route.handler, posted) {
        (Handler::Public(page), None) => page(app, request, found.id).await,
        (Handler::SignIn(sign_in), Some((proof, form))) => sign_in(app, request, form, proof).await,
        (_, _) => Err(Failure::NotFound),
    }
}
