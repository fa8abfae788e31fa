//! Serves the description of the API: as JSON and as a page. Both are built from one document at start, and need no
//! credentials.

mod endpoint;
mod fields;
mod markdown;
mod page;
mod settings;
mod try_it;

pub(crate) use settings::DocsSettings;

use crate::http::conditions::is_not_modified;
use crate::http::response::not_modified;
use crate::openapi;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use sha2::{Digest, Sha256};
use warp::http::HeaderValue;
use warp::reply::Response;

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
        let mut document = openapi::document();
        document.info.contact.url = settings.console_url.as_ref().map(ToString::to_string);
        let json = serde_json::to_vec(&document).expect("the document has string keys");
        let page = page::page(&document, settings.try_it).into_bytes();
        let mut page = Asset::new("text/html; charset=utf-8", page);
        page.headers.insert(CONTENT_SECURITY_POLICY, header(&page_policy(settings.try_it)));
        page.headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        Self { openapi: Asset::new("application/json", json), page }
    }
}

/// The page's content security policy: only its own style sheet, named by its digest; no scripts, images, other origins or
/// frames. To try requests it has one script, named by its digest as well, which may send requests to this server.
fn page_policy(try_it: bool) -> String {
    let digest = |part: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(part)));
    let scripts = if try_it {
        format!("script-src {}; connect-src 'self'; ", digest(try_it::SCRIPT))
    } else {
        String::new()
    };
    format!(
        "default-src 'none'; style-src {}; {scripts}img-src data:; base-uri 'none'; form-action 'none'; \
        frame-ancestors 'none'",
        digest(page::STYLE)
    )
}

impl Asset {
    fn new(content_type: &'static str, body: Vec<u8>) -> Self {
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
            not_modified()
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
    use hyper::StatusCode;
    use hyper::header::IF_NONE_MATCH;

    fn page_text(settings: &DocsSettings) -> String {
        String::from_utf8(Docs::new(settings).page.body.to_vec()).unwrap()
    }

    #[test]
    fn a_current_etag_gets_304() {
        let Docs { openapi, page } = Docs::new(&DocsSettings::default());
        for asset in [openapi, page] {
            let etag = asset.response(&HeaderMap::new()).headers()[ETAG].clone();
            let known =
                |tag: HeaderValue| asset.response(&HeaderMap::from_iter([(IF_NONE_MATCH, tag)])).status();
            assert_eq!(known(etag), StatusCode::NOT_MODIFIED);
            assert_eq!(known(HeaderValue::from_static("\"another\"")), StatusCode::OK);
        }
    }

    #[test]
    fn the_page_allows_its_own_style_and_nothing_else() {
        let policy = page_policy(false);
        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        let page = page_text(&DocsSettings::default());
        assert!(page.contains(&format!("<style>{}</style>", page::STYLE)));
        for forbidden in ["<script", " style=", "javascript:", " src=", "onclick", "@import", "url("] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn to_try_requests_the_page_has_one_script_that_the_policy_names() {
        let page = page_text(&DocsSettings { try_it: true, console_url: None });
        assert_eq!(page.matches("<script").count(), 1);
        assert!(page.contains(&format!("<script>{}</script>", try_it::SCRIPT)));
        let policy = page_policy(true);
        assert!(policy.contains("script-src 'sha256-") && policy.contains("connect-src 'self'"), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains("script-src 'self'"), "{policy}");
        // It would end the script element.
        assert!(!try_it::SCRIPT.contains("</"));
    }
}
