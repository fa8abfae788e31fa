//! Thousands of connections with hardly any traffic: idle ones, and slow ones that never end the head of a request. They
//! come from several addresses of this machine and are served by their own thread.

use crate::background_load::{BackgroundLoad, StopSignal};
use crate::prepare::api_address;
use crate::time_limit::with_step_timeout;
use futures_util::StreamExt;
use futures_util::stream;
use std::net::SocketAddr;
use std::time::Duration;
use tests::{EVENTS, MAX_WAIT, World, WorldBuilder, eventually};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;

/// Number of connections.
pub(super) const SIZE: usize = 4_096;
/// Number of source addresses.
const PEERS: usize = 8;
/// Connections that are being opened at once.
const OPENING: usize = 64;
/// How often each slow connection sends a byte.
const SLOW: Duration = Duration::from_secs(5);
/// Steps in which all of them have sent a byte.
const STEPS: u32 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionKind {
    /// Sends nothing at all.
    Idle,
    /// Sends a byte of a request's head from time to time.
    Slow,
}

impl ConnectionKind {
    pub(super) fn label(self) -> String {
        match self {
            Self::Idle => format!("{SIZE} idle connections"),
            Self::Slow => format!("{SIZE} slow connections"),
        }
    }
}

/// A world whose ingest allows four times as many connections, so that none is closed early.
pub(super) fn world_with_high_limits() -> WorldBuilder {
    World::with().set("CONNECT_MAX_CONNECTIONS", "16384").set("CONNECT_HEADER_TIMEOUT", "120s")
}

/// Connections of one kind, kept open by a background thread.
pub(super) struct OpenConnections(BackgroundLoad<usize>);

impl OpenConnections {
    /// Opens all connections and waits until ingest has accepted them.
    pub(super) async fn open(world: &World, kind: ConnectionKind) -> Self {
        let (address, (ready, opened)) = (api_address(world), oneshot::channel());
        let connections = Self(BackgroundLoad::start(move |stop| keep_open(address, kind, ready, stop)));
        with_step_timeout("the connections are opened", opened)
            .await
            .expect("the connections can be opened; see above");
        eventually("ingest has all the connections", MAX_WAIT, async || {
            let open = world.ingests[0].metrics().await.sum("connect_http_connections", &[]);
            if open >= SIZE as f64 { Ok(()) } else { Err(format!("{open}")) }
        })
        .await;
        connections
    }

    /// Closes all connections. Panics if ingest has closed one before.
    pub(super) async fn close(self) {
        let lost = self.0.stop().await;
        assert_eq!(lost, 0, "ingest closed some of the connections: the figures are of fewer than {SIZE}");
    }
}

/// Opens the connections and keeps them open until the signal to stop. Returns how many ingest has closed by then.
async fn keep_open(
    address: SocketAddr,
    kind: ConnectionKind,
    ready: oneshot::Sender<()>,
    mut stop: StopSignal,
) -> usize {
    let opening = stream::iter((0..SIZE).map(|number| open(address, kind, number % PEERS)));
    let connections: Vec<TcpStream> = opening.buffer_unordered(OPENING).collect().await;
    // The receiver is dropped when the benchmark has failed.
    ready.send(()).ok();
    let sending = async {
        loop {
            for some in connections.chunks(SIZE / STEPS as usize) {
                tokio::time::sleep(SLOW / STEPS).await;
                // One that was closed is counted at the end.
                some.iter().for_each(|connection| drop(connection.try_write(b"a")));
            }
        }
    };
    match kind {
        ConnectionKind::Idle => stop.stopped().await,
        ConnectionKind::Slow => tokio::select! {
            () = sending => {}
            () = stop.stopped() => {}
        },
    }
    connections.iter().filter(|connection| is_closed(connection)).count()
}

async fn open(address: SocketAddr, kind: ConnectionKind, peer: usize) -> TcpStream {
    let source = [127, 0, 0, 2 + u8::try_from(peer).expect("few addresses")];
    let opened = async {
        let socket = TcpSocket::new_v4()?;
        socket.bind((source, 0).into())?;
        let mut stream = socket.connect(address).await?;
        if kind == ConnectionKind::Slow {
            let head = format!("POST {EVENTS} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: ");
            stream.write_all(head.as_bytes()).await?;
        }
        Ok::<_, std::io::Error>(stream)
    };
    opened.await.unwrap_or_else(|error| panic!("a connection from {source:?}: {error}"))
}

fn is_closed(connection: &TcpStream) -> bool {
    match connection.try_read(&mut [0; 64]) {
        Ok(_) => true,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}
