//! What a receiver does with a request it has read.

use bytes::Bytes;
use std::time::Duration;

/// What a receiver does with a request it has read.
#[derive(Clone, Debug)]
pub enum Behaviour {
    /// Answers properly, and keeps the connection.
    Answer {
        /// Any number, proper or not.
        status: u16,
        /// Beside `content-length`.
        headers: Vec<(String, String)>,
        /// The body.
        body: Bytes,
        /// How long it takes.
        delay: Duration,
    },
    /// Does nothing while the receiver holds (`hold`), and then this.
    Held(Box<Behaviour>),
    /// Never answers. The connection stays until the other end closes it.
    Silent,
    /// Resets the connection.
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

impl Behaviour {
    /// Answers with a status at once, without a body.
    pub fn status(status: u16) -> Self {
        Self::Answer { status, headers: Vec::new(), body: Bytes::new(), delay: Duration::ZERO }
    }

    /// Points elsewhere, with a 302.
    pub fn redirect(location: &str) -> Self {
        Self::status(302).with_header("location", location)
    }

    /// Does this only when the receiver doesn't hold (any more).
    pub fn held(self) -> Self {
        Self::Held(Box::new(self))
    }

    /// Adds a header to an answer.
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        if let Self::Answer { headers, .. } = &mut self {
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// Adds a body to an answer.
    pub fn with_body(mut self, bytes: impl Into<Bytes>) -> Self {
        if let Self::Answer { body, .. } = &mut self {
            *body = bytes.into();
        }
        self
    }

    /// Takes this long to answer.
    pub fn after(mut self, time: Duration) -> Self {
        if let Self::Answer { delay, .. } = &mut self {
            *delay = time;
        }
        self
    }
}
