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
    /// The headers of a failed attempt's response that explain it, a line each.
    pub headers: Option<String>,
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
        let duration = Duration::ZERO;
        Self { outcome, status: None, error, response: None, headers: None, retry_after: None, duration }
    }
}

common::named! {
    /// How an attempt ended. Names are values of the label `outcome` of the metrics.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Outcome {
        /// A 2xx (Delivery rules 1).
        Delivered = "delivered",
        /// A 3xx, which is not followed (D26).
        Redirect = "redirect",
        /// A 4xx.
        ClientError = "client_error",
        /// A 5xx.
        ServerError = "server_error",
        /// A status of no other class, such as 101.
        OtherStatus = "other_status",
        /// No status in time.
        Timeout = "timeout",
        /// The host name has no address, or its resolution failed.
        NotResolved = "not_resolved",
        /// The URL or one of its addresses is not public (D27). No connection was made.
        AddressRefused = "address_refused",
        /// No address accepted the connection.
        ConnectFailed = "connect_failed",
        /// The TLS handshake failed, or the certificate is not valid.
        TlsFailed = "tls_failed",
        /// The connection was lost before a status, or the response is not HTTP.
        ConnectionLost = "connection_lost",
    }
}

impl Outcome {
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
