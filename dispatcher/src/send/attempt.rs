//! What came of an attempt.

use std::time::Duration;

/// One try of a delivery, as it is put on record (D26).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// What came of it.
    pub outcome: Outcome,
    /// The response's status, if there was one.
    pub status: Option<u16>,
    /// Why there is no status, in words for an operator: names addresses, no part of the URL and no secret. `None`
    /// when there is one.
    pub error: Option<String>,
    /// The first KiB of a failed attempt's response body, without NUL and with U+FFFD for what isn't UTF-8. `None`
    /// when it had none.
    pub response: Option<String>,
    /// How long the receiver asked to be left alone, counted from the end of the attempt: `Retry-After` of a 429
    /// or 503, at most 366 days (D26).
    pub retry_after: Option<Duration>,
    /// From the begin to the status, or to the failure.
    pub duration: Duration,
}

/// What came of an attempt, as a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A 2xx (Delivery rules 1).
    Delivered,
    /// A 3xx, which isn't followed (D26).
    Redirect,
    /// A 4xx.
    ClientError,
    /// A 5xx.
    ServerError,
    /// A status of no other class, such as 101.
    OtherStatus,
    /// No status in time.
    Timeout,
    /// The name has no address, or the name service fails.
    NotResolved,
    /// The URL or one of its addresses isn't public (D27). Nothing was connected to.
    AddressRefused,
    /// No address takes connections.
    ConnectFailed,
    /// TLS can't be agreed on, or the certificate doesn't hold.
    TlsFailed,
    /// The connection broke before a status, or what came is no HTTP.
    ConnectionLost,
}

impl Outcome {
    /// All of them.
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

    /// The metric's label.
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

    /// Whether the receiver has it.
    pub const fn is_delivered(self) -> bool {
        matches!(self, Self::Delivered)
    }

    /// The kind of a status.
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
