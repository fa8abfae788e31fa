//! Responses, and the headers that all of them have.

use crate::app::App;
use crate::failure::Failure;
use crate::request::Request;
use common::settings::ConsoleUrl;
use futures_util::stream::poll_fn;
use hyper::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION,
    REFERRER_POLICY, STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{HeaderMap, StatusCode};
use maud::Markup;
use tokio::sync::mpsc::Receiver;
use uuid::Uuid;
use warp::reply::{Reply as _, Response};

/// Only the console's own style sheet and script; no frames, and forms only to the console itself.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// An HTML page.
pub(crate) fn html(status: StatusCode, page: Markup) -> Response {
    let mut response = Response::new(page.into_string().into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    response
}

/// A file that is downloaded under `name`, in parts as they arrive. An error ends it as incomplete.
pub(crate) fn download(name: &str, media_type: &'static str, mut parts: Receiver<Result<String, String>>) -> Response {
    let parts = poll_fn(move |context| parts.poll_recv(context));
    let mut response = warp::reply::stream(parts).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    // The name is made of slugs, which need no quoting.
    if let Ok(disposition) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        response.headers_mut().insert(CONTENT_DISPOSITION, disposition);
    }
    response
}

/// The response after a change: the browser gets the page at `path`, so that a reload does not repeat the change. `path`
/// is made of the console's own routes and of ids that exist, so that nobody can redirect to another site.
pub(crate) fn redirect(path: &str) -> Response {
    debug_assert!(path.starts_with('/') && !path.starts_with("//"), "{path}");
    let mut response = Response::default();
    *response.status_mut() = StatusCode::SEE_OTHER;
    let location = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/"));
    response.headers_mut().insert(LOCATION, location);
    response
}

/// Sends the browser to the identity provider of the settings.
pub(crate) fn redirect_to_provider(url: &str) -> Response {
    let mut response = redirect("/sign-in");
    if let Ok(location) = HeaderValue::from_str(url) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

/// Adds the headers that every response has.
pub(crate) fn add_headers(app: &App, id: Uuid, headers: &mut HeaderMap) {
    let fixed = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_FRAME_OPTIONS, "DENY"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // With `no-referrer`, browsers would send forms with `Origin: null`.
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Pages have secrets, and belong to the person who is signed in.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let id = HeaderValue::from_str(&id.to_string()).expect("a UUID is ASCII");
    headers.insert(HeaderName::from_static("x-request-id"), id);
    add_transport_security(&app.url, headers);
}

fn add_transport_security(url: &ConsoleUrl, headers: &mut HeaderMap) {
    if url.is_https() {
        headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
}

const STYLE: &str = include_str!("assets/console.css");
const SCRIPT: &str = include_str!("assets/console.js");

pub(crate) async fn style(_app: &App, _request: &Request, _id: Option<&str>) -> Result<Response, Failure> {
    Ok(asset("text/css; charset=utf-8", STYLE))
}

pub(crate) async fn script(_app: &App, _request: &Request, _id: Option<&str>) -> Result<Response, Failure> {
    Ok(asset("text/javascript; charset=utf-8", SCRIPT))
}

fn asset(content_type: &'static str, text: &'static str) -> Response {
    let mut response = Response::new(text.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    // Caches ask each time after a minute: a release may have changed it.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=60"));
    response
}
