//! The failure of an attempt without a status: an outcome and a text, derived from the error of the HTTP client.

use super::attempt::Outcome;
use super::connect_error::ConnectError;
use super::receiver_connection::NotBegun;
use super::settings::CA_FILE;
use common::causes::cause;
use common::tls::explain_tls_of;
use hyper_util::client::legacy;
use std::io;

/// Longest text, in bytes. Parts of it can come from the receiver, such as its certificate's names.
const MAX_TEXT: usize = 300;

/// Why an attempt has no response.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) outcome: Outcome,
    /// The status of a response whose head is too large, malformed, cut off or too slow.
    pub(super) status: Option<u16>,
    pub(super) text: String,
}

impl Failure {
    pub(super) fn new(outcome: Outcome, text: &str) -> Self {
        Self { outcome, status: None, text: bounded(text) }
    }

    /// The failure, or the status if one was received: it counts whatever becomes of the rest of the head (D42).
    pub(super) fn unless_status(self, seen: Option<u16>) -> Self {
        seen.map_or(self, |status| Self {
            outcome: Outcome::of_status(status),
            status: Some(status),
            text: String::new(),
        })
    }

    pub(super) fn of(error: &legacy::Error) -> Self {
        if let Some(failed) = cause::<ConnectError>(error) {
            let text = explain_tls_of(failed, CA_FILE)
                .map_or_else(|| failed.to_string(), |what| format!("TLS: {what}"));
            return Self::new(failed.outcome(), &text);
        }
        // In TLS 1.3 a receiver may reject the connection after the handshake.
        if let Some(cause) = cause::<rustls::Error>(error) {
            return Self::new(Outcome::TlsFailed, &format!("TLS: {cause}"));
        }
        Self::new(Outcome::ConnectionLost, &lost(error))
    }
}

/// Whether nothing of the request was sent, because the receiver had closed the idle connection.
pub(super) fn is_not_begun(error: &legacy::Error) -> bool {
    cause::<NotBegun>(error).is_some()
}

fn lost(error: &legacy::Error) -> String {
    if let Some(cause) = cause::<io::Error>(error) {
        return format!("connection lost: {cause}");
    }
    match cause::<hyper::Error>(error) {
        Some(cause) if cause.is_incomplete_message() => {
            "the connection was closed before a response".to_owned()
        }
        Some(cause) if cause.is_parse_too_large() => "the response's head is too large".to_owned(),
        Some(cause) if cause.is_parse() => format!("the response is not HTTP/1.1: {cause}"),
        Some(cause) => format!("connection lost: {cause}"),
        None => format!("connection lost: {error}"),
    }
}

/// A text that can be stored and shown.
fn bounded(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_TEXT);
    text[..end].replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_bounded_and_can_be_stored() {
        let failure = Failure::new(Outcome::TlsFailed, &format!("a\0b\n{}", "\u{e9}".repeat(300)));
        assert!(failure.text.starts_with("a\u{fffd}b\u{fffd}\u{e9}"), "{}", failure.text);
        assert!(failure.text.len() <= MAX_TEXT + 4, "{}", failure.text.len());
    }
}
