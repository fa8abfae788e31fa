//! Why there is no connection to a receiver.

use std::io;
use thiserror::Error;

/// Why there is no connection to a receiver. The texts are for operators.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The URL or an address is not public (D27).
    #[error("{0}")]
    Refused(String),
    /// The name has no address.
    #[error("host does not resolve: {0}")]
    NotResolved(String),
    /// No address accepted a connection; holds the last one that was tried.
    #[error("cannot connect to {0}: {1}")]
    NotConnected(std::net::SocketAddr, io::Error),
    /// The TLS handshake failed.
    #[error("TLS: {0}")]
    Tls(#[source] io::Error),
    /// The time for connecting has passed.
    #[error("no connection in time")]
    TimedOut,
}
