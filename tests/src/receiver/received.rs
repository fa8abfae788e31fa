//! A request as the receiver read it.

use bytes::Bytes;
use common::signature::{SignatureError, verify_webhook};
use serde_json::Value;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A request as the receiver read it.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    /// Request line and headers.
    pub head: String,
    /// The body, byte by byte.
    pub body: Bytes,
    /// When its last byte was read.
    pub at: Instant,
    /// The same by the wall clock.
    pub clock: SystemTime,
    /// The number of the receiver's connection, from 1.
    pub connection: usize,
}

impl ReceivedRequest {
    /// The method, as it was sent.
    pub fn method(&self) -> &str {
        self.head.split(' ').next().unwrap_or_default()
    }

    /// The request target: path and query.
    pub fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    /// The path of the target, without its query.
    pub fn path(&self) -> &str {
        self.target().split('?').next().unwrap_or_default()
    }

    /// Names and values of the headers, as they were sent.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let lines = self.head.split("\r\n").skip(1);
        lines.filter_map(|line| line.split_once(':').map(|(name, value)| (name, value.trim())))
    }

    /// A header's value, empty when it is absent.
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers().find(|(sent, _)| sent.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value)
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }

    /// Verifies the signature as a receiver does, at the time the request came.
    pub fn verify(&self, secret: &str) -> Result<(), SignatureError> {
        let since = self.clock.duration_since(UNIX_EPOCH).expect("a clock after 1970");
        let now = i64::try_from(since.as_secs()).expect("a clock of this age");
        verify_webhook(secret.as_bytes(), self.header("x-connect-signature"), &self.body, now)
    }
}
