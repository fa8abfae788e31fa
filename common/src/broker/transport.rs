//! TLS to RabbitMQ: the AMQP library runs on a stream that is encrypted before it gets it.

use super::dial::DialError;
use crate::settings::{BROKER_TLS_NAMES, BrokerTls};
use crate::tls::{TlsFailure, TlsServer, handshake};
use async_rs::traits::Reactor;
use async_rs::util::RuntimeParts;
use async_rs::{Runtime, Tokio};
use futures_util::Stream;
use futures_util::io::{AsyncRead, AsyncWrite};
use lapin::tcp::AsyncTcpStream;
use lapin::uri::AMQPUri;
use lapin::{Connection, ConnectionProperties};
use parking_lot::Mutex;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt as _};

type EncryptedStream = Compat<TlsStream<TcpStream>>;

/// Connects to the broker at `address` with TLS. The inner error is the AMQP library's.
pub(super) async fn connect_encrypted(
    uri: AMQPUri, tls: &BrokerTls, address: &str, properties: ConnectionProperties,
) -> Result<lapin::Result<Connection>, DialError> {
    let stream = open(&uri, tls, address).await?;
    // The library asks for a stream once, because it is told not to reconnect by itself.
    let stream = Mutex::new(Some(stream.compat()));
    let connect = async move |_uri, _runtime| match stream.lock().take() {
        Some(stream) => Ok(AsyncTcpStream::Plain(stream)),
        None => Err(lapin::Error::from(io::Error::from(io::ErrorKind::NotConnected))),
    };
    let kit = RuntimeParts::new(Tokio::current(), EncryptedReactor(Tokio::current()));
    Ok(Connection::connector(uri, Runtime::new(kit), connect, properties).await)
}

async fn open(uri: &AMQPUri, tls: &BrokerTls, address: &str) -> Result<TlsStream<TcpStream>, DialError> {
    let failed = |what| DialError::Tls(TlsFailure { server: address.to_owned(), what });
    let options = tls.options.clone();
    let loaded = tokio::task::spawn_blocking(move || options.load()).await;
    let config = loaded.unwrap_or_else(|error| Err(error.to_string())).map_err(failed)?;
    let refused = |error: io::Error| DialError::Refused(address.to_owned(), error.to_string());
    let stream = TcpStream::connect((uri.authority.host.as_str(), uri.authority.port)).await.map_err(refused)?;
    // The library writes whole frames; each must be sent at once.
    stream.set_nodelay(true).map_err(refused)?;
    let server = TlsServer { address: address.to_owned(), name: tls.server_name.clone(), names: &BROKER_TLS_NAMES };
    handshake(Arc::clone(&config), &server, stream).await.map_err(DialError::Tls)
}

/// Tokio's reactor, with another type of streams. It opens none: the library is given one.
#[derive(Clone, Debug)]
struct EncryptedReactor(Tokio);

impl Reactor for EncryptedReactor {
    type TcpStream = EncryptedStream;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H: Read + Write + AsFd + AsRawFd + Send + 'static>(
        &self, socket: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        self.0.register(socket)
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.0.sleep(duration)
    }

    fn interval(&self, every: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.0.interval(every)
    }

    fn tcp_connect_addr(
        &self, _address: SocketAddr,
    ) -> impl Future<Output = io::Result<EncryptedStream>> + Send + 'static {
        std::future::ready(Err(io::Error::from(io::ErrorKind::Unsupported)))
    }
}
