//! The streams to Postgres, plain or encrypted: the driver's connector.

use super::sync_folding::SyncFolding;
use crate::settings::DATABASE_TLS_NAMES;
use crate::tls::{TlsFailure, TlsOptions, TlsServer, explain_io, handshake, server_end_point};
use bytes::{Buf, BytesMut};
use futures_util::future::BoxFuture;
use rustls::ClientConfig;
use std::error::Error as StdError;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_util::either::Either;

/// Bytes that are read at once.
const READ_BYTES: usize = 8 * 1024;

/// Makes the streams to one server.
#[derive(Clone)]
pub(super) struct PostgresTls {
    server: TlsServer,
    /// What the files hold, or why they cannot be used; `None` for plain text.
    config: Option<Result<Arc<ClientConfig>, String>>,
}

impl PostgresTls {
    /// For the server `name`, which listens at `address`. Reads the certificates' files, unless the connection is plain text.
    pub(super) async fn load(options: Option<&TlsOptions>, name: &str, address: String) -> Self {
        let server = TlsServer { address, name: name.to_owned(), names: &DATABASE_TLS_NAMES };
        let config = match options.cloned() {
            None => None,
            Some(options) => {
                let load = tokio::task::spawn_blocking(move || options.load());
                Some(load.await.unwrap_or_else(|error| Err(error.to_string())))
            }
        };
        Self { server, config }
    }
}

impl MakeTlsConnect<Socket> for PostgresTls {
    type Stream = PostgresStream;
    type TlsConnect = Handshake;
    type Error = TlsFailure;

    /// The driver calls this for plain text as well.
    fn make_tls_connect(&mut self, _domain: &str) -> Result<Handshake, TlsFailure> {
        Ok(Handshake(self.clone()))
    }
}

pub(super) struct Handshake(PostgresTls);

impl TlsConnect<Socket> for Handshake {
    type Stream = PostgresStream;
    type Error = TlsFailure;
    type Future = BoxFuture<'static, Result<PostgresStream, TlsFailure>>;

    fn connect(self, stream: Socket) -> Self::Future {
        let PostgresTls { server, config } = self.0;
        Box::pin(async move {
            let Some(config) = config else { return Ok(PostgresStream::new(Either::Left(stream))) };
            let config = config.map_err(|what| TlsFailure { server: server.address.clone(), what })?;
            Ok(PostgresStream::new(Either::Right(handshake(config, &server, stream).await?)))
        })
    }
}

/// A connection to Postgres.
pub struct PostgresStream {
    stream: Either<Socket, tokio_rustls::client::TlsStream<Socket>>,
    folding: SyncFolding,
    /// For the server.
    outgoing: BytesMut,
    /// For the driver.
    incoming: BytesMut,
}

impl PostgresStream {
    fn new(stream: Either<Socket, tokio_rustls::client::TlsStream<Socket>>) -> Self {
        Self { stream, folding: SyncFolding::default(), outgoing: BytesMut::new(), incoming: BytesMut::new() }
    }

    /// Writes what the driver has handed over.
    fn poll_write_out(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.outgoing.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.outgoing))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.outgoing.advance(written);
        }
        Poll::Ready(Ok(()))
    }
}

impl std::fmt::Debug for PostgresStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PostgresStream")
    }
}

impl TlsStream for PostgresStream {
    fn channel_binding(&self) -> ChannelBinding {
        let Either::Right(encrypted) = &self.stream else { return ChannelBinding::none() };
        let certificates = encrypted.get_ref().1.peer_certificates().unwrap_or_default();
        let end_point = certificates.first().and_then(|own| server_end_point(own));
        end_point.map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

impl AsyncRead for PostgresStream {
    fn poll_read(
        mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, folding, incoming, .. } = &mut *self;
        while incoming.is_empty() {
            let mut bytes = [MaybeUninit::uninit(); READ_BYTES];
            let mut bytes = ReadBuf::uninit(&mut bytes);
            ready!(Pin::new(&mut *stream).poll_read(context, &mut bytes))?;
            if bytes.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            folding.receive(bytes.filled(), incoming);
        }
        let length = incoming.len().min(buffer.remaining());
        buffer.put_slice(&incoming[..length]);
        incoming.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PostgresStream {
    /// Takes all that it is given, once what it was given before is written.
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_write_out(context))?;
        let Self { folding, outgoing, .. } = &mut *self;
        folding.send(bytes, outgoing);
        match self.poll_write_out(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(bytes.len())),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_out(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_out(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
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
