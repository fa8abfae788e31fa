//! How a receiver handles a request.

use bytes::Bytes;
use std::time::Duration;

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
