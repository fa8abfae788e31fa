//! The description of the API, served: for programs as JSON, for people as a page. Both are made once, at start, of
//! the one document; both are open to everybody.

mod endpoint;
mod fields;
mod markdown;
mod page;

use crate::conditions::has_already;
use crate::openapi;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use sha2::{Digest, Sha256};
use warp::http::{HeaderValue, StatusCode};
use warp::reply::Response;

/// What is served.
#[derive(Debug)]
pub struct Docs {
    /// `/openapi.json`
    pub openapi: Asset,
    /// `/docs`
    pub page: Asset,
}

/// Something that doesn't change while the program runs.
#[derive(Clone, Debug)]
pub struct Asset {
    body: Bytes,
    etag: String,
    headers: HeaderMap,
}

impl Docs {
    /// Makes both.
    pub fn new() -> Self {
        let document = openapi::document();
        let json = serde_json::to_vec(&document).expect("the document has string keys");
        let mut page = Asset::new("text/html; charset=utf-8", page::page(&document).into_bytes());
        page.headers.insert(CONTENT_SECURITY_POLICY, header(&page_policy()));
        page.headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        Self { openapi: Asset::new("application/json", json), page }
    }
}

impl Default for Docs {
    fn default() -> Self {
        Self::new()
    }
}

/// What the page may do: show itself in its one style sheet, which is named by its digest. No script, no picture,
/// nothing from elsewhere, no frame around it.
fn page_policy() -> String {
    let style = STANDARD.encode(Sha256::digest(page::STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; img-src data:; base-uri 'none'; form-action 'none'; \
        frame-ancestors 'none'"
    )
}

impl Asset {
    fn new(content_type: &'static str, body: Vec<u8>) -> Self {
        let etag = format!("\"{}\"", hex::encode(&Sha256::digest(&body)[..16]));
        let headers = [
            (CONTENT_TYPE, HeaderValue::from_static(content_type)),
            (ETAG, header(&etag)),
            // Kept by caches, and asked for anew each time: a release may have changed it.
            (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        ];
        Self { body: body.into(), etag, headers: headers.into_iter().collect() }
    }

    /// The answer to a GET: 304 when the caller has it already.
    pub fn answer(&self, request: &HeaderMap) -> Response {
        let mut response = if has_already(request, &self.etag) {
            let mut response = Response::default();
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
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

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::IF_NONE_MATCH;

    #[test]
    fn who_has_an_asset_already_is_not_sent_it_again() {
        let Docs { openapi, page } = Docs::new();
        for asset in [openapi, page] {
            let etag = asset.answer(&HeaderMap::new()).headers()[ETAG].clone();
            let known =
                |tag: HeaderValue| asset.answer(&HeaderMap::from_iter([(IF_NONE_MATCH, tag)])).status();
            assert_eq!(known(etag), StatusCode::NOT_MODIFIED);
            assert_eq!(known(HeaderValue::from_static("\"another\"")), StatusCode::OK);
        }
    }

    #[test]
    fn the_page_allows_its_own_style_and_nothing_else() {
        let policy = page_policy();
        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        let page = String::from_utf8(Docs::new().page.body.to_vec()).unwrap();
        assert!(page.contains(&format!("<style>{}</style>", page::STYLE)));
        for forbidden in ["<script", " style=", "javascript:", " src=", "onclick", "@import", "url("] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
    }
}
