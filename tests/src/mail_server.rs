//! A mail server that keeps what it takes, or responds to nothing.

use crate::threads;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A server on a free port of 127.0.0.1, without TLS.
#[derive(Debug)]
pub struct MailServer {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    mails: Mutex<Vec<String>>,
    connections: AtomicUsize,
    is_silent: AtomicBool,
    is_refusing: AtomicBool,
}

impl MailServer {
    /// Starts a server.
    pub fn start() -> Self {
        let state = Arc::new(State::default());
        let of_server = Arc::clone(&state);
        let address = threads::serve(|listener| accept(listener, of_server));
        Self { address, state }
    }

    /// Its URL, as in `CONNECT_SMTP_URL`.
    pub fn url(&self) -> String {
        format!("smtp://{}", self.address)
    }

    /// Whether it responds to nothing.
    pub fn set_silent(&self, is_silent: bool) {
        self.state.is_silent.store(is_silent, Ordering::Relaxed);
    }

    /// Whether it refuses every recipient for good.
    pub fn set_refusing(&self, is_refusing: bool) {
        self.state.is_refusing.store(is_refusing, Ordering::Relaxed);
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::Relaxed)
    }

    /// The mails that it has taken, with their headers, without the encoding of long lines.
    pub fn mails(&self) -> Vec<String> {
        self.state.mails.lock().iter().map(|mail| mail.replace("=\r\n", "").replace("=3D", "=")).collect()
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    while let Ok((connection, _)) = listener.accept().await {
        state.connections.fetch_add(1, Ordering::Relaxed);
        let state = Arc::clone(&state);
        tokio::spawn(async move { drop(serve(connection, &state).await) });
    }
}

async fn serve(connection: TcpStream, state: &State) -> std::io::Result<()> {
    let mut connection = BufReader::new(connection);
    let (mut line, mut response) = (String::new(), "220 ready\r\n");
    loop {
        if state.is_silent.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        connection.write_all(response.as_bytes()).await?;
        line.clear();
        if connection.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let is_refused = line.starts_with("RCPT") && state.is_refusing.load(Ordering::Relaxed);
        response = if is_refused { "550 unknown\r\n" } else { "250 taken\r\n" };
        if line.trim_end() == "DATA" {
            connection.write_all(b"354 go on\r\n").await?;
            let mut mail = String::new();
            while !mail.ends_with("\r\n.\r\n") && connection.read_line(&mut mail).await? > 0 {}
            state.mails.lock().push(mail);
        }
    }
}
