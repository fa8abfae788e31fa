//! The result of an attempt.

use std::time::Duration;

/// The result of one attempt, as it is recorded (D26).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// The outcome, by which the dispatcher decides about a retry.
    pub outcome: Outcome,
    /// The response's status, if there was one.
    pub status: Option<u16>,
    /// Why there is no status, for operators. It may name addresses, but no part of the URL and no secret. `None` if
    /// there is a status.
    pub error: Option<String>,
    /// The first KiB of a failed attempt's response body, with U+FFFD in place of NUL and of invalid UTF-8. `None`
    /// if the body was empty.
    pub response: Option<String>,
    /// The wait that the receiver asks for, counted from the end of the attempt: `Retry-After` of a 429 or 503, at most
    /// 366 days (D26).
    pub retry_after: Option<Duration>,
    /// Time from the start to the status or the failure.
    pub duration: Duration,
}

impl Attempt {
    /// One that ended without a status, at once unless its duration is set.
    pub(super) fn without_status(outcome: Outcome, error: &str) -> Self {
        let error = Some(error.to_owned());
        Self { outcome, status: None, error, response: None, retry_after: None, duration: Duration::ZERO }
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A 2xx (Delivery rules 1).
    Delivered,
    /// A 3xx, which is not followed (D26).
    Redirect,
    /// A 4xx.
    ClientError,
    /// A 5xx.
    ServerError,
    /// A status of no other class, such as 101.
    OtherStatus,
    /// No status in time.
    Timeout,
    /// The host name has no address, or its resolution failed.
    NotResolved,
    /// The URL or one of its addresses is not public (D27). No connection was made.
    AddressRefused,
    /// No address accepted the connection.
    ConnectFailed,
    /// The TLS handshake failed, or the certificate is not valid.
    TlsFailed,
    /// The connection was lost before a status, or the response is not HTTP.
    ConnectionLost,
}

impl Outcome {
    /// Each outcome once.
    pub const ALL: [Self; 11] = [
        Self::Delivered,
        Self::Redirect,
        Self::ClientError,
        Self::ServerError,
        Self::OtherStatus,
        Self::Timeout,
        Self::NotResolved,
        Self::AddressRefused,
        Self::ConnectFailed,
        Self::TlsFailed,
        Self::ConnectionLost,
    ];

    /// Value of the label `outcome` of the metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Redirect => "redirect",
            Self::ClientError => "client_error",
            Self::ServerError => "server_error",
            Self::OtherStatus => "other_status",
            Self::Timeout => "timeout",
            Self::NotResolved => "not_resolved",
            Self::AddressRefused => "address_refused",
            Self::ConnectFailed => "connect_failed",
            Self::TlsFailed => "tls_failed",
            Self::ConnectionLost => "connection_lost",
        }
    }

    /// Whether the receiver accepted the webhook.
    pub const fn is_delivered(self) -> bool {
        matches!(self, Self::Delivered)
    }

    /// Whether the receiver sent a status, whichever it was; or nothing was sent, which says nothing about the receiver.
    pub(super) const fn has_responded(self) -> bool {
        !matches!(
            self,
            Self::Timeout | Self::NotResolved | Self::ConnectFailed | Self::TlsFailed | Self::ConnectionLost
        )
    }

    /// The outcome for a status code.
    pub(super) const fn of_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Delivered,
            300..=399 => Self::Redirect,
            400..=499 => Self::ClientError,
            500..=599 => Self::ServerError,
            _ => Self::OtherStatus,
        }
    }
}
