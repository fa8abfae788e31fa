//! Streams to RabbitMQ, which are connected, and encrypted, before the AMQP library gets them.

use super::dial::DialError;
use crate::settings::{BROKER_TLS_NAMES, BrokerTls};
use crate::tls::{TlsFailure, TlsServer, handshake};
use async_rs::traits::Reactor;
use async_rs::util::RuntimeParts;
use async_rs::{Runtime, Tokio};
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
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt as _};
use tokio_util::either::Either;

/// How long an address may take to accept a connection, unless the URL's `connection_timeout` says otherwise. If packets are lost, the
/// system waits for seconds before it repeats them, and the broker may be there long before.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(1);

type Stream = Compat<Either<TcpStream, TlsStream<TcpStream>>>;

/// Connects to the broker at `address`, with or without TLS. The inner error is the AMQP library's.
pub(super) async fn connect(
    uri: AMQPUri, tls: Option<&BrokerTls>, address: &str, properties: ConnectionProperties,
) -> Result<lapin::Result<Connection>, DialError> {
    let refused = |error: io::Error| DialError::Refused(format!("{address}: {error}"));
    let stream = open(&uri).await.map_err(refused)?;
    let stream = match tls {
        None => Either::Left(stream),
        Some(tls) => Either::Right(encrypt(stream, tls, address).await?),
    };
    // The library asks for a stream once, because it is told not to reconnect by itself.
    let stream = Mutex::new(Some(stream.compat()));
    let connect = async move |_uri, _runtime| match stream.lock().take() {
        Some(stream) => Ok(AsyncTcpStream::Plain(stream)),
        None => Err(lapin::Error::from(io::Error::from(io::ErrorKind::NotConnected))),
    };
    let kit = RuntimeParts::new(Tokio::current(), OpenReactor(Tokio::current()));
    Ok(Connection::connector(uri, Runtime::new(kit), connect, properties).await)
}

/// A connection to the first address of the broker that accepts one.
async fn open(uri: &AMQPUri) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = lookup_host((uri.authority.host.as_str(), uri.authority.port)).await?.collect();
    let share = |all: u64| Duration::from_millis(all) / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let within = uri.query.connection_timeout.map_or(ACCEPT_TIMEOUT, share);
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match timeout(within, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // The library writes whole frames; each must be sent at once.
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Ok(Err(error)) => failure = error,
            Err(_) => failure = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(failure)
}

async fn encrypt(stream: TcpStream, tls: &BrokerTls, address: &str) -> Result<TlsStream<TcpStream>, DialError> {
    let failed = |what| DialError::Tls(TlsFailure { server: address.to_owned(), what });
    let options = tls.options.clone();
    let loaded = tokio::task::spawn_blocking(move || options.load()).await;
    let config = loaded.unwrap_or_else(|error| Err(error.to_string())).map_err(failed)?;
    let server = TlsServer { address: address.to_owned(), name: tls.server_name.clone(), names: &BROKER_TLS_NAMES };
    handshake(Arc::clone(&config), &server, stream).await.map_err(DialError::Tls)
}

/// Tokio's reactor, with another type of streams. It opens none: the library is given one.
#[derive(Clone, Debug)]
struct OpenReactor(Tokio);

impl Reactor for OpenReactor {
    type TcpStream = Stream;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H: Read + Write + AsFd + AsRawFd + Send + 'static>(
        &self, socket: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        self.0.register(socket)
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.0.sleep(duration)
    }

    fn interval(&self, every: Duration) -> impl futures_util::Stream<Item = Instant> + Send + 'static {
        self.0.interval(every)
    }

    fn tcp_connect_addr(&self, _address: SocketAddr) -> impl Future<Output = io::Result<Stream>> + Send + 'static {
        std::future::ready(Err(io::Error::from(io::ErrorKind::Unsupported)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpSocket;

    #[tokio::test]
    async fn an_address_that_does_not_accept_is_left_in_time() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        // A full queue answers nothing more.
        let (soon, mut queued) = (Duration::from_millis(50), Vec::new());
        while let Ok(connected) = timeout(soon, TcpStream::connect(address)).await {
            queued.push(connected.unwrap());
        }
        let uri = format!("amqp://{address}/%2f?connection_timeout=50").parse().unwrap();
        // Only a failing test waits for so long.
        let left = timeout(Duration::from_secs(20), open(&uri)).await.expect("it is left before the system gives up");
        assert_eq!(left.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop((listener, queued));
    }
}
