//! Authentication of the events route (specification: Authentication; D1, D2).

mod headers;
mod keys;
mod replay;
mod signature;
mod timing;

use tests::event::batch;
use tests::{HttpResponse, event};

/// A batch that is valid, of one new client.
pub(crate) fn valid() -> Vec<u8> {
    batch(&[event("contact.identified").email("ana@example.com")])
}

/// Checks that the response is the one that all authentication failures share.
#[track_caller]
fn assert_unauthorized(response: &HttpResponse, why: &str) {
    assert_eq!(response.status, 401, "{why}: {response:?}");
    assert_eq!(response.assert_error(401, "unauthorized"), "Invalid Connect credentials", "{why}");
}

/// Checks that the response is the one to a valid signature without the tenant or scope.
#[track_caller]
fn assert_forbidden(response: &HttpResponse, why: &str) {
    assert_eq!(response.status, 403, "{why}: {response:?}");
    assert_eq!(response.assert_error(403, "forbidden"), "Invalid Connect credentials", "{why}");
}
