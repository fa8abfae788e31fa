//! TLS to Postgres: the driver's connector.

use crate::settings::DATABASE_TLS_NAMES;
use crate::tls::{TlsFailure, TlsOptions, TlsServer, explain_io, handshake, server_end_point};
use futures_util::future::BoxFuture;
use rustls::ClientConfig;
use std::error::Error as StdError;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};

/// Makes the handshakes with one server. It is not used for plain text.
#[derive(Clone)]
pub(super) struct PostgresTls {
    server: TlsServer,
    /// What the files hold, or why they cannot be used.
    config: Result<Arc<ClientConfig>, String>,
}

impl PostgresTls {
    /// For the server `name`, which listens at `address`. Reads the certificates' files, unless the connection is plain text.
    pub(super) async fn load(options: Option<&TlsOptions>, name: &str, address: String) -> Self {
        let server = TlsServer { address, name: name.to_owned(), names: &DATABASE_TLS_NAMES };
        let config = match options.cloned() {
            None => Err("the connection is plain text".to_owned()),
            Some(options) => {
                let load = tokio::task::spawn_blocking(move || options.load());
                load.await.unwrap_or_else(|error| Err(error.to_string()))
            }
        };
        Self { server, config }
    }
}

impl MakeTlsConnect<Socket> for PostgresTls {
    type Stream = EncryptedStream;
    type TlsConnect = Handshake;
    type Error = TlsFailure;

    /// The driver calls this for plain text as well.
    fn make_tls_connect(&mut self, _domain: &str) -> Result<Handshake, TlsFailure> {
        Ok(Handshake(self.clone()))
    }
}

pub(super) struct Handshake(PostgresTls);

impl TlsConnect<Socket> for Handshake {
    type Stream = EncryptedStream;
    type Error = TlsFailure;
    type Future = BoxFuture<'static, Result<EncryptedStream, TlsFailure>>;

    fn connect(self, stream: Socket) -> Self::Future {
        let PostgresTls { server, config } = self.0;
        Box::pin(async move {
            let config = config.map_err(|what| TlsFailure { server: server.address.clone(), what })?;
            Ok(EncryptedStream(handshake(config, &server, stream).await?))
        })
    }
}

/// An encrypted connection to Postgres.
pub struct EncryptedStream(tokio_rustls::client::TlsStream<Socket>);

impl std::fmt::Debug for EncryptedStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EncryptedStream")
    }
}

impl TlsStream for EncryptedStream {
    fn channel_binding(&self) -> ChannelBinding {
        let certificates = self.0.get_ref().1.peer_certificates().unwrap_or_default();
        let end_point = certificates.first().and_then(|own| server_end_point(own));
        end_point.map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

impl AsyncRead for EncryptedStream {
    fn poll_read(
        mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for EncryptedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// The text of an error of the driver that has no SQLSTATE, with its causes.
pub(super) fn describe_with_causes(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = StdError::source(error);
    while let Some(source) = cause {
        if source.is::<TlsFailure>() {
            return source.to_string();
        }
        let alert = source.downcast_ref().and_then(|source| explain_io(source, &DATABASE_TLS_NAMES));
        let part = match alert {
            Some(what) => what,
            // The driver's text where a server responds that it has no TLS.
            None if source.to_string() == "server does not support TLS" => {
                "the server does not offer TLS; turn ssl on there, or set sslmode=disable if the network is trusted"
                    .to_owned()
            }
            // The driver's text for `target_session_attrs=read-write`.
            None if source.to_string() == "database does not allow writes" => {
                "the server is read-only: a standby, or demoted".to_owned()
            }
            None => source.to_string(),
        };
        text = format!("{text}: {part}");
        cause = source.source();
    }
    text
}
