//! Why there is no connection.

use super::attempt::Outcome;
use std::io;
use thiserror::Error;

/// Why there is no connection. The texts are an operator's to read.
#[derive(Debug, Error)]
pub(super) enum ConnectError {
    /// The URL or an address isn't public (D27).
    #[error("{0}")]
    Refused(String),
    /// The name has no address.
    #[error("host doesn't resolve: {0}")]
    NotResolved(String),
    /// No address takes connections; tells of the last that was tried.
    #[error("can't connect to {0}: {1}")]
    NotConnected(std::net::SocketAddr, io::Error),
    /// TLS can't be agreed on.
    #[error("TLS: {0}")]
    Tls(io::Error),
    /// It took too long.
    #[error("no connection in time")]
    TimedOut,
}

impl ConnectError {
    pub(super) const fn outcome(&self) -> Outcome {
        match self {
            Self::Refused(_) => Outcome::AddressRefused,
            Self::NotResolved(_) => Outcome::NotResolved,
            Self::NotConnected(..) => Outcome::ConnectFailed,
            Self::Tls(_) => Outcome::TlsFailed,
            Self::TimedOut => Outcome::Timeout,
        }
    }
}
