//! The style sheet and the script, which are part of the program.

use crate::app::App;
use crate::failure::Failure;
use crate::request::Request;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use warp::reply::Response;

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
