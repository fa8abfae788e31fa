//! The servers for operators, of metrics and health and of the settings area, refuse HTTP/1.1 requests without exactly one `Host`
//! (D34). Ingest has stricter rules of its own.

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper::service::{Service, service_fn};
use hyper::{HeaderMap, Request, StatusCode, Version};
use std::convert::Infallible;
use warp::Reply;
use warp::reply::Response;

/// Wraps the service of a connection, so that it responds 400 to such requests and closes the connection.
pub fn require_host<S>(
    service: S,
) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send>
where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send>,
{
    service_fn(move |request: Request<Incoming>| {
        let response = has_host(request.headers(), request.version()).then(|| service.call(request));
        async move {
            match response {
                Some(response) => response.await,
                None => Ok(refuse()),
            }
        }
    })
}

fn has_host(headers: &HeaderMap, version: Version) -> bool {
    match headers.get_all(HOST).iter().count() {
        0 => version != Version::HTTP_11,
        1 => true,
        _ => false,
    }
}

fn refuse() -> Response {
    let text = "the request must have one Host header\n";
    let mut response = warp::reply::with_status(text, StatusCode::BAD_REQUEST).into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_1_1_needs_one_host() {
        let (none, mut headers) = (HeaderMap::new(), HeaderMap::new());
        headers.append(HOST, HeaderValue::from_static("a"));
        assert!(has_host(&headers, Version::HTTP_11) && has_host(&none, Version::HTTP_10));
        assert!(!has_host(&none, Version::HTTP_11));
        headers.append(HOST, HeaderValue::from_static("a"));
        assert!(!has_host(&headers, Version::HTTP_11) && !has_host(&headers, Version::HTTP_10));
    }
}
