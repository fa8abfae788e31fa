//! Serves the description of the API, `ingest/openapi.yaml`: as JSON, and as a page that shows it with Swagger UI. Neither needs
//! credentials.

#[cfg(test)]
mod tests;

use crate::http::conditions::is_not_modified;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use common::settings::{CONSOLE_URL, ConsoleUrl, Environment, Section, SettingError, Variable};
use common::variables;
use hyper::HeaderMap;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use sha2::{Digest, Sha256};
use warp::Reply;
use warp::http::{HeaderValue, StatusCode};
use warp::reply::Response;

/// The document as JSON, without the URL of its contact.
pub const OPENAPI: &str = include_str!(concat!(env!("OUT_DIR"), "/openapi.json"));
const SWAGGER_UI: &str = include_str!(concat!(env!("OUT_DIR"), "/swagger-ui-bundle.js"));
const STYLES: [&str; 2] = [include_str!(concat!(env!("OUT_DIR"), "/swagger-ui.css")), include_str!("page.css")];
const SCRIPT: &str = include_str!("page.js");
const PAGE: &str = include_str!("page.html");
/// Where somebody pastes the key with which the page signs.
const CREDENTIALS: &str = include_str!("credentials.html");

/// What the description offers beside itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct DocsSettings {
    /// Whether the page can sign and send requests.
    pub(crate) try_it: bool,
    /// The settings area, if the description names it as its contact.
    pub(crate) console_url: Option<ConsoleUrl>,
}

impl Section for DocsSettings {
    const VARIABLES: &'static [Variable] = variables! {
        "CONNECT_DOCS_TRY_IT" => "false", "whether the page /docs can sign and send requests, with a key that somebody pastes there; the key stays in the browser and is not stored";
        CONSOLE_URL.name => optional, CONSOLE_URL.help;
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        Ok(Self {
            try_it: env.get::<Self, _>("CONNECT_DOCS_TRY_IT")?,
            console_url: env.optional::<Self, ConsoleUrl>("CONNECT_CONSOLE_URL")?,
        })
    }
}

/// The two forms of the description.
#[derive(Debug)]
pub(crate) struct Docs {
    /// `/openapi.json`
    pub(crate) openapi: Asset,
    /// `/docs`
    pub(crate) page: Asset,
}

/// A response body that does not change while the program runs.
#[derive(Clone, Debug)]
pub(crate) struct Asset {
    body: Bytes,
    etag: String,
    headers: HeaderMap,
}

impl Docs {
    pub(crate) fn new(settings: &DocsSettings) -> Self {
        let mut document = OPENAPI.to_owned();
        if let Some(url) = &settings.console_url {
            let url = serde_json::Value::from(url.to_string());
            document = document.replacen(r#""contact":{"#, &format!(r#""contact":{{"url":{url},"#), 1);
        }
        let mut page = Asset::new("text/html; charset=utf-8", page(&document, settings.try_it));
        page.headers.insert(CONTENT_SECURITY_POLICY, header(&page_policy(settings.try_it)));
        page.headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        Self { openapi: Asset::new("application/json", document), page }
    }
}

/// The page of a document. Everything is in it, so that it needs no other route.
fn page(document: &str, try_it: bool) -> String {
    // No part of the document may end the element that it is in.
    let document = document.replace("</", r"<\/");
    let parts = [
        ("{{styles}}", STYLES.concat()),
        ("{{credentials}}", if try_it { CREDENTIALS.to_owned() } else { String::new() }),
        ("{{document}}", document),
        ("{{script}}", SCRIPT.to_owned()),
        ("{{swagger-ui}}", SWAGGER_UI.to_owned()),
    ];
    parts.into_iter().fold(PAGE.to_owned(), |page, (place, part)| page.replacen(place, &part, 1))
}

/// The page's content security policy: only its own style sheet and scripts, named by their digests; no other origins or frames.
/// Requests may be sent to this server only, and only to try them.
fn page_policy(try_it: bool) -> String {
    let digest = |part: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(part)));
    format!(
        "default-src 'none'; style-src {}; script-src {} {}; {}img-src data:; base-uri 'none'; form-action 'none'; \
        frame-ancestors 'none'",
        digest(&STYLES.concat()),
        digest(SWAGGER_UI),
        digest(SCRIPT),
        if try_it { "connect-src 'self'; " } else { "" },
    )
}

impl Asset {
    fn new(content_type: &'static str, body: String) -> Self {
        let etag = format!("\"{}\"", hex::encode(&Sha256::digest(&body)[..16]));
        let headers = [
            (CONTENT_TYPE, HeaderValue::from_static(content_type)),
            (ETAG, header(&etag)),
            // Caches must revalidate each time: a release may have changed it.
            (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        ];
        Self { body: body.into(), etag, headers: headers.into_iter().collect() }
    }

    /// The response to a GET: 304 when the caller has this version already.
    pub(crate) fn response(&self, request: &HeaderMap) -> Response {
        let mut response = if is_not_modified(request, &self.etag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            Response::new(self.body.clone().into())
        };
        *response.headers_mut() = self.headers.clone();
        response
    }
}

fn header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("these have visible ASCII only")
}
