//! Refuses requests that violate HTTP/1.1 but pass hyper, before any handler sees them (D34; RFC 9110, RFC 9112): targets
//! that are not a path of this server, a missing or repeated `Host`, unsupported codings.
//!
//! Where the end of the request is ambiguous, the connection is closed after the response.

use crate::refusal::Refusal;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use hyper::http::uri::{Authority, Scheme};
use hyper::{HeaderMap, Request, Uri, Version};

/// What is wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpViolation {
    /// The target is `host:port`, as of `CONNECT`: this server is no proxy.
    AuthorityForm,
    /// The target is `*`, or begins with neither `/` nor `http`.
    NoPath,
    /// The target's host is not that of the header `Host`.
    OtherHost,
    /// HTTP/1.1, or a target that names a host, without `Host`.
    HostMissing,
    /// More than one `Host`.
    HostRepeated,
    /// `Host` is no host with or without a port.
    HostMalformed,
    /// Another transfer coding than `chunked`, or more than that one.
    TransferEncoding,
    /// A body in another coding than `identity`.
    ContentEncoding,
}

impl HttpViolation {
    /// The first violation of a request.
    pub(crate) fn of<B>(request: &Request<B>) -> Option<Self> {
        let (headers, uri) = (request.headers(), request.uri());
        // Framing first: it decides whether the connection can be kept.
        let found = of_framing(headers)
            .and_then(|()| of_host(headers, request.version()))
            .and_then(|host| of_target(uri, host))
            .and_then(|()| of_content(headers));
        found.err()
    }

    /// Whether a proxy may have seen another end of the request, or another server as its target.
    pub(crate) const fn closes_connection(self) -> bool {
        !matches!(self, Self::ContentEncoding)
    }

    pub(crate) fn refusal(self) -> Refusal {
        Refusal::InvalidRequest(self.message().to_owned())
    }

    const fn message(self) -> &'static str {
        match self {
            Self::AuthorityForm => "the request target must begin with /; this server is not a proxy",
            Self::NoPath => "the request target must begin with /",
            Self::OtherHost => "the host of the request target must be that of the header Host",
            Self::HostMissing => "Host: is required",
            Self::HostRepeated => "Host: must not be repeated",
            Self::HostMalformed => "Host: must be a host name or address, with or without a port",
            Self::TransferEncoding => "Transfer-Encoding: must be chunked, once, or absent",
            Self::ContentEncoding => "Content-Encoding: must be identity or absent",
        }
    }
}

fn of_framing(headers: &HeaderMap) -> Result<(), HttpViolation> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let first = codings.next();
    let is_chunked = first.is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
    if is_chunked && codings.next().is_none() { Ok(()) } else { Err(HttpViolation::TransferEncoding) }
}

/// Gives the host, `None` without one, which HTTP/1.0 allows.
fn of_host(headers: &HeaderMap, version: Version) -> Result<Option<&[u8]>, HttpViolation> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if version == Version::HTTP_11 => Err(HttpViolation::HostMissing),
        (None, _) => Ok(None),
        (Some(_), Some(_)) => Err(HttpViolation::HostRepeated),
        (Some(host), None) => {
            let host = host.as_bytes();
            // Empty is the right value for a target that has no host (RFC 9110, 7.2).
            let is_host = host.is_empty() || (!host.contains(&b'@') && Authority::try_from(host).is_ok());
            if is_host { Ok(Some(host)) } else { Err(HttpViolation::HostMalformed) }
        }
    }
}

fn of_target(uri: &Uri, host: Option<&[u8]>) -> Result<(), HttpViolation> {
    match (uri.scheme(), uri.authority()) {
        (None, Some(_)) => Err(HttpViolation::AuthorityForm),
        (Some(scheme), Some(named)) if [Scheme::HTTP, Scheme::HTTPS].contains(scheme) => {
            // Also of HTTP/1.0, which allows a request without the header: nothing else says that the host is this server.
            let host = host.ok_or(HttpViolation::HostMissing)?;
            let is_same = named.as_str().as_bytes().eq_ignore_ascii_case(host);
            if is_same { Ok(()) } else { Err(HttpViolation::OtherHost) }
        }
        (None, None) if uri.path().starts_with('/') => Ok(()),
        (Some(_), _) | (None, None) => Err(HttpViolation::NoPath),
    }
}

fn of_content(headers: &HeaderMap) -> Result<(), HttpViolation> {
    let has_length = headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0");
    let has_body = has_length || headers.contains_key(TRANSFER_ENCODING);
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    let is_plain = codings.all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity"));
    if is_plain || !has_body { Ok(()) } else { Err(HttpViolation::ContentEncoding) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is wrong with a request of that target and those headers.
    fn of(target: &str, headers: &[(&str, &str)]) -> Option<HttpViolation> {
        let mut request = Request::builder().method("POST").uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        HttpViolation::of(&request.body(()).unwrap())
    }

    #[test]
    fn the_target_has_a_path_and_names_no_other_host() {
        for (target, host, expected) in [
            ("/a?b", "connect", None),
            ("/a?b", "", None),
            ("http://connect:80/a", "CONNECT:80", None),
            ("http://connect/a", "other", Some(HttpViolation::OtherHost)),
            ("http://user@connect/a", "connect", Some(HttpViolation::OtherHost)),
            ("ftp://connect/a", "connect", Some(HttpViolation::NoPath)),
            ("*", "connect", Some(HttpViolation::NoPath)),
            ("a:1", "a:1", Some(HttpViolation::AuthorityForm)),
            ("connect", "connect", Some(HttpViolation::AuthorityForm)),
        ] {
            assert_eq!(of(target, &[("host", host)]), expected, "{target} {host}");
        }
    }

    #[test]
    fn there_is_one_host_that_is_one() {
        assert_eq!(of("/", &[]), Some(HttpViolation::HostMissing));
        assert_eq!(of("/", &[("host", "a"), ("host", "a")]), Some(HttpViolation::HostRepeated));
        for malformed in ["a b", "a/b", "user@a", "a:b:c", "[::1"] {
            assert_eq!(of("/", &[("host", malformed)]), Some(HttpViolation::HostMalformed), "{malformed}");
        }
        for good in ["connect", "connect:8080", "127.0.0.1:1", "[::1]:80", "a-b.example."] {
            assert_eq!(of("/", &[("host", good)]), None, "{good}");
        }
        let mut old = Request::new(());
        *old.version_mut() = Version::HTTP_10;
        assert_eq!(HttpViolation::of(&old), None);
        // Without a header nothing says that the host of the target is this server.
        *old.uri_mut() = Uri::from_static("http://elsewhere/");
        assert_eq!(HttpViolation::of(&old), Some(HttpViolation::HostMissing));
    }

    #[test]
    fn the_body_has_one_length_and_no_coding() {
        let framed = |headers: &[(&str, &str)]| of("/", &[&[("host", "a")], headers].concat());
        assert_eq!(framed(&[("transfer-encoding", "Chunked")]), None);
        for coding in ["gzip, chunked", "identity", "chunked, chunked", "chunked;a=b", ""] {
            let expected = Some(HttpViolation::TransferEncoding);
            assert_eq!(framed(&[("transfer-encoding", coding)]), expected, "{coding}");
        }
        let twice = [("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")];
        assert_eq!(framed(&twice), Some(HttpViolation::TransferEncoding));
        let sized = ("content-length", "1");
        for coding in ["gzip", "identity, gzip", "br"] {
            let expected = Some(HttpViolation::ContentEncoding);
            assert_eq!(framed(&[sized, ("content-encoding", coding)]), expected, "{coding}");
        }
        assert_eq!(framed(&[sized, ("content-encoding", "Identity")]), None);
        assert_eq!(framed(&[("content-length", "0"), ("content-encoding", "gzip")]), None);
    }
}
