//! A TCP proxy that can break what goes through it.

use std::net::{Ipv4Addr, SocketAddr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What happens to connections.
#[derive(Clone, Copy, Debug, Default)]
struct Weather {
    /// Bytes of the clients don't pass.
    stalled: bool,
    /// Bytes of the server don't pass.
    replies_stalled: bool,
    /// New connections are reset at once.
    refusing: bool,
    /// How often the connections that were there have been reset.
    cuts: u32,
}

/// A proxy to one server. Ends with its value.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
}

impl Proxy {
    /// A proxy to `server`, `host:port`. It runs beside the test's runtime.
    pub fn to(server: &str) -> Self {
        let (sender, weather) = watch::channel(Weather::default());
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port for the proxy");
        listener.set_nonblocking(true).expect("a listener for the runtime");
        let address = listener.local_addr().expect("the port's number");
        let server = server.to_owned();
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(accept(listener, server, weather));
        });
        Self { address, weather: sender }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Resets all connections, and each new one.
    pub fn cut(&self) {
        self.weather.send_modify(|weather| {
            weather.cuts += 1;
            weather.refusing = true;
        });
    }

    /// Resets the connections that are there; new ones pass.
    pub fn cut_once(&self) {
        self.weather.send_modify(|weather| weather.cuts += 1);
    }

    /// Holds back all bytes, as when a server hangs or a cable is pulled.
    pub fn stall(&self) {
        self.weather.send_modify(|weather| (weather.stalled, weather.replies_stalled) = (true, true));
    }

    /// Holds back what the server sends; what clients send passes.
    pub fn stall_replies(&self) {
        self.weather.send_modify(|weather| weather.replies_stalled = true);
    }

    /// Lets connections and bytes pass again. What was held back goes on.
    pub fn restore(&self) {
        self.weather.send_modify(|weather| {
            *weather = Weather { cuts: weather.cuts, ..Weather::default() };
        });
    }
}

/// Serves until the [`Proxy`] is dropped.
async fn accept(listener: std::net::TcpListener, server: String, mut weather: watch::Receiver<Weather>) {
    let listener = TcpListener::from_std(listener).expect("a listener of this runtime");
    loop {
        tokio::select! {
            changed = weather.changed() => if changed.is_err() { return },
            connection = listener.accept() => if let Ok((client, _)) = connection {
                tokio::spawn(serve(client, server.clone(), weather.clone()));
            },
        }
    }
}

async fn serve(mut client: TcpStream, server: String, weather: watch::Receiver<Weather>) {
    let Weather { refusing, cuts, .. } = *weather.borrow();
    if refusing {
        return drop(client.set_zero_linger());
    }
    let Ok(mut server) = TcpStream::connect(server).await else { return drop(client.set_zero_linger()) };
    let mut watching = weather.clone();
    let was_cut = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        tokio::select! {
            _ = watching.wait_for(|weather| weather.cuts != cuts) => true,
            () = pump(from_client, to_server, weather.clone(), |weather| weather.stalled) => false,
            () = pump(from_server, to_client, weather, |weather| weather.replies_stalled) => false,
        }
    };
    if was_cut {
        // Closed with a reset instead of an orderly end.
        drop((client.set_zero_linger(), server.set_zero_linger()));
    }
}

/// Copies bytes while they may pass, until either end closes.
async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut weather: watch::Receiver<Weather>,
    is_stalled: fn(&Weather) -> bool,
) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if weather.wait_for(|weather| !is_stalled(weather)).await.is_err()
            || to.write_all(&buffer[..read]).await.is_err()
        {
            return;
        }
    }
}
