//! A request as the receiver read it, and how a receiver handles one.

use bytes::Bytes;
use common::signature::{SignatureError, verify_webhook};
use serde_json::Value;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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

/// How a receiver handles a request.
#[derive(Clone, Debug)]
pub enum Behavior {
    /// Sends a valid response and keeps the connection.
    Respond {
        /// The status code, valid or not.
        status: u16,
        /// Headers beside `content-length`.
        headers: Vec<(String, String)>,
        /// Sent with a `content-length`.
        body: Bytes,
        /// Delay before the response.
        delay: Duration,
    },
    /// Waits while the receiver holds requests (`hold`), and then does this.
    Held(Box<Behavior>),
    /// Never responds. The connection stays until the other end closes it.
    Silent,
    /// Resets the connection without a response.
    Reset,
    /// Closes the connection in an orderly way.
    Close,
    /// Sends these bytes instead of a response, and closes.
    Garbage(Bytes),
    /// Sends a head with this status and a body without end.
    EndlessBody(u16),
    /// Sends a head with this status that announces a body, and some of it; the rest never comes.
    StalledBody(u16),
    /// Sends a head with this status and headers without end.
    EndlessHead(u16),
    /// Sends a head with this status, a byte at a time with this between, without end.
    SlowHead(u16, Duration),
}

impl Default for Behavior {
    fn default() -> Self {
        Self::status(204)
    }
}

impl Behavior {
    /// Responds at once with a status and no body.
    pub fn status(status: u16) -> Self {
        Self::Respond { status, headers: Vec::new(), body: Bytes::new(), delay: Duration::ZERO }
    }

    /// Redirects with a 302.
    pub fn redirect(location: &str) -> Self {
        Self::status(302).with_header("location", location)
    }

    /// Waits with this while the receiver holds requests.
    pub fn held(self) -> Self {
        Self::Held(Box::new(self))
    }

    /// Adds a header to a response.
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        if let Self::Respond { headers, .. } = &mut self {
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// Adds a body to a response.
    pub fn with_body(mut self, bytes: impl Into<Bytes>) -> Self {
        if let Self::Respond { body, .. } = &mut self {
            *body = bytes.into();
        }
        self
    }

    /// Responds after this time.
    pub fn after(mut self, time: Duration) -> Self {
        if let Self::Respond { delay, .. } = &mut self {
            *delay = time;
        }
        self
    }
}
