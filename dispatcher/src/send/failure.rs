//! The failure of an attempt without a status: an outcome and a text, derived from the error of the HTTP client.

use super::attempt::{Attempt, Outcome};
use super::settings::CA_FILE;
use common::causes::cause;
use common::egress::{ConnectError, NotBegun};
use common::tls::explain_tls_of;
use hyper_util::client::legacy;
use std::io;

/// Longest text, in bytes. Parts of it can come from the receiver, such as its certificate's names.
const MAX_TEXT: usize = 300;

/// The failed attempt of a request that has got no response.
pub(super) fn failed(error: &legacy::Error) -> Attempt {
    if let Some(failed) = cause::<ConnectError>(error) {
        let text = explain_tls_of(failed, CA_FILE).map_or_else(|| failed.to_string(), |what| format!("TLS: {what}"));
        return Attempt::without_status(unconnected(failed), &bounded(&text));
    }
    // In TLS 1.3 a receiver may reject the connection after the handshake.
    if let Some(cause) = cause::<rustls::Error>(error) {
        return Attempt::without_status(Outcome::TlsFailed, &bounded(&format!("TLS: {cause}")));
    }
    Attempt::without_status(Outcome::ConnectionLost, &bounded(&lost(error)))
}

const fn unconnected(error: &ConnectError) -> Outcome {
    match error {
        ConnectError::Refused(_) => Outcome::AddressRefused,
        ConnectError::NotResolved(_) => Outcome::NotResolved,
        ConnectError::NotConnected(..) => Outcome::ConnectFailed,
        ConnectError::Tls(_) => Outcome::TlsFailed,
        ConnectError::TimedOut => Outcome::Timeout,
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
        Some(cause) if cause.is_incomplete_message() => "the connection was closed before a response".to_owned(),
        Some(cause) if cause.is_parse_too_large() => "the response's head is too large".to_owned(),
        Some(cause) if cause.is_parse() => format!("the response is not HTTP/1.1: {cause}"),
        Some(cause) => format!("connection lost: {cause}"),
        None => format!("connection lost: {error}"),
    }
}

/// A text that can be stored and shown.
pub(super) fn bounded(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_TEXT);
    text[..end].replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_bounded_and_can_be_stored() {
        let text = bounded(&format!("a\0b\n{}", "\u{e9}".repeat(300)));
        assert!(text.starts_with("a\u{fffd}b\u{fffd}\u{e9}"), "{text}");
        assert!(text.len() <= MAX_TEXT + 4, "{}", text.len());
    }
}
