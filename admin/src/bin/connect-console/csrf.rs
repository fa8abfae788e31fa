//! Requests that change something must come from the console's own pages.

use hyper::HeaderMap;

/// A proof that the request came from a page of the console. Only [`check`] makes one, and without one nothing is changed.
#[derive(Debug)]
pub(crate) struct SameOrigin(());

/// Checks a request that changes something. Browsers say in `Sec-Fetch-Site` whose page sent it, and older ones, or those that
/// reach the console without TLS, in `Origin`. A request without either header is refused.
pub(crate) fn check(headers: &HeaderMap, own_origin: &str) -> Option<SameOrigin> {
    let mut sites = headers.get_all("sec-fetch-site").iter();
    let mut origins = headers.get_all("origin").iter();
    let is_own = match (sites.next(), origins.next()) {
        (Some(site), _) => site == "same-origin",
        (None, Some(origin)) => origin == own_origin,
        (None, None) => false,
    };
    let is_ambiguous = sites.next().is_some() || origins.next().is_some();
    (is_own && !is_ambiguous).then_some(SameOrigin(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};

    const OWN: &str = "https://console.example.com";

    fn is_accepted(headers: &[(&'static str, &'static str)]) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        check(&map, OWN).is_some()
    }

    #[test]
    fn only_requests_of_the_consoles_own_pages_are_accepted() {
        assert!(is_accepted(&[("sec-fetch-site", "same-origin")]));
        assert!(is_accepted(&[("origin", OWN)]));
        assert!(is_accepted(&[("sec-fetch-site", "same-origin"), ("origin", OWN)]));
        for refused in [
            &[][..],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "none")],
            &[("sec-fetch-site", "cross-site"), ("origin", OWN)],
            &[("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")],
            &[("origin", "null")],
            &[("origin", "https://console.example.com.attacker.example")],
            &[("origin", "http://console.example.com")],
            &[("origin", OWN), ("origin", "https://attacker.example")],
            &[("referer", "https://console.example.com/")],
        ] {
            assert!(!is_accepted(refused), "{refused:?}");
        }
    }
}
