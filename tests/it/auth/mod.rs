//! Authentication of the events route (specification: Authentication; D1, D2).

mod headers;
mod keys;
mod order;
mod replay;
mod signature;
mod timing;

use tests::event::batch;
use tests::{Answer, event};

/// A batch that is valid, of one new client.
fn valid() -> Vec<u8> {
    batch(&[event("contact.identified").email("ana@example.com")])
}

/// Checks that the answer is the one that all authentication failures share.
#[track_caller]
fn assert_unauthorized(answer: &Answer, why: &str) {
    assert_eq!(answer.status, 401, "{why}: {answer:?}");
    assert_eq!(answer.assert_error(401, "unauthorized"), "Invalid Connect credentials", "{why}");
}

/// Checks that the answer is the one that a valid signature without the right gets.
#[track_caller]
fn assert_forbidden(answer: &Answer, why: &str) {
    assert_eq!(answer.status, 403, "{why}: {answer:?}");
    assert_eq!(answer.assert_error(403, "forbidden"), "Invalid Connect credentials", "{why}");
}
