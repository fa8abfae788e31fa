//! The client's side of a handshake.

use super::failure::{TlsFailure, explain_handshake};
use super::options::OptionNames;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

#[derive(Clone, Debug)]
pub(crate) struct TlsServer {
    /// Such as `db.example:5432`, for errors.
    pub(crate) address: String,
    /// The name or address that its certificate must be valid for.
    pub(crate) name: String,
    pub(crate) names: &'static OptionNames,
}

/// Encrypts a stream to a server, and verifies the server.
pub(crate) async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
    config: Arc<ClientConfig>, server: &TlsServer, stream: S,
) -> Result<TlsStream<S>, TlsFailure> {
    let failure = |what| TlsFailure { server: server.address.clone(), what };
    let name = ServerName::try_from(server.name.clone())
        .map_err(|_| failure(format!("{} is not the name of a host", server.name)))?;
    let connected = TlsConnector::from(config).connect(name, stream).await;
    connected.map_err(|error| failure(explain_handshake(&error, server.names)))
}
