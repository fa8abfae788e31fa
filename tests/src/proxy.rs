//! A TCP proxy that injects connection faults.

use crate::threads;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, Default)]
struct ConnectionFaults {
    /// Bytes of the clients are held back.
    stalled: bool,
    /// Bytes of each client that pass before its connection stalls.
    stalled_after: Option<usize>,
    /// Bytes of every second connection are held back.
    half_stalled: bool,
    /// Bytes of the server are held back.
    replies_stalled: bool,
    /// New connections are reset at once.
    refusing: bool,
    /// How often the open connections have been reset.
    resets: u32,
}

/// A proxy to one server. It stops when the value is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    faults: watch::Sender<ConnectionFaults>,
}

impl Proxy {
    /// A proxy to `server`, `host:port`. It runs on its own thread.
    pub fn to(server: &str) -> Self {
        let (sender, faults) = watch::channel(ConnectionFaults::default());
        let server = server.to_owned();
        let address = threads::serve(|listener| accept(listener, server, faults));
        Self { address, faults: sender }
    }

    /// The address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Resets all open connections, and each new one until [`restore`](Self::restore).
    pub fn reset_connections(&self) {
        self.faults.send_modify(|faults| {
            faults.resets += 1;
            faults.refusing = true;
        });
    }

    /// Resets all open connections; new ones pass.
    pub fn reset_connections_once(&self) {
        self.faults.send_modify(|faults| faults.resets += 1);
    }

    /// Holds back all bytes, as when a server hangs or the network fails.
    pub fn stall(&self) {
        self.faults.send_modify(|faults| (faults.stalled, faults.replies_stalled) = (true, true));
    }

    /// Holds back all bytes of every second connection, of those that are open and of new ones.
    pub fn stall_half(&self) {
        self.faults.send_modify(|faults| faults.half_stalled = true);
    }

    /// Holds back what a client sends after this many bytes, of each connection.
    pub fn stall_after(&self, bytes: usize) {
        self.faults.send_modify(|faults| faults.stalled_after = Some(bytes));
    }

    /// Holds back the server's bytes; the clients' bytes pass.
    pub fn stall_replies(&self) {
        self.faults.send_modify(|faults| faults.replies_stalled = true);
    }

    /// Ends all faults. Bytes that were held back are forwarded.
    pub fn restore(&self) {
        self.faults.send_modify(|faults| {
            *faults = ConnectionFaults { resets: faults.resets, ..ConnectionFaults::default() };
        });
    }
}

/// Serves until the [`Proxy`] is dropped.
async fn accept(listener: TcpListener, server: String, mut faults: watch::Receiver<ConnectionFaults>) {
    let mut is_second = false;
    loop {
        tokio::select! {
            changed = faults.changed() => if changed.is_err() { return },
            connection = listener.accept() => if let Ok((client, _)) = connection {
                is_second = !is_second;
                tokio::spawn(serve(client, server.clone(), faults.clone(), is_second));
            },
        }
    }
}

async fn serve(mut client: TcpStream, server: String, faults: watch::Receiver<ConnectionFaults>, is_second: bool) {
    let ConnectionFaults { refusing, resets, .. } = *faults.borrow();
    if refusing {
        return drop(client.set_zero_linger());
    }
    let Ok(mut server) = TcpStream::connect(server).await else { return drop(client.set_zero_linger()) };
    let mut watching = faults.clone();
    let was_reset = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        tokio::select! {
            _ = watching.wait_for(|faults| faults.resets != resets) => true,
            () = pump(from_client, to_server, faults.clone(), |faults, passed| {
                faults.stalled
                    || (faults.half_stalled && is_second)
                    || faults.stalled_after.is_some_and(|most| passed > most)
            }) => false,
            () = pump(from_server, to_client, faults, |faults, _| {
                faults.replies_stalled || (faults.half_stalled && is_second)
            }) => false,
        }
    };
    if was_reset {
        // Closed with a reset instead of an orderly end.
        drop((client.set_zero_linger(), server.set_zero_linger()));
    }
}

/// Copies bytes until either end closes, while they may pass after as many that have passed.
async fn pump(
    mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, mut faults: watch::Receiver<ConnectionFaults>,
    is_stalled: impl Fn(&ConnectionFaults, usize) -> bool,
) {
    let mut buffer = [0; 16 * 1024];
    let mut passed = 0;
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        passed += read;
        if faults.wait_for(|faults| !is_stalled(faults, passed)).await.is_err()
            || to.write_all(&buffer[..read]).await.is_err()
        {
            return;
        }
    }
}
