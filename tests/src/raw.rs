//! Requests byte by byte, for what a proper client doesn't send.

use crate::http::Outgoing;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

const TIMEOUT: Duration = Duration::from_secs(20);

/// A connection that takes any bytes.
#[derive(Debug)]
pub struct RawConnection(TcpStream);

/// An answer as text.
#[derive(Clone, Debug)]
pub struct RawAnswer {
    /// Status code.
    pub status: u16,
    /// Status line and headers.
    pub head: String,
    /// The body.
    pub body: String,
}

impl RawConnection {
    /// Connects.
    pub async fn to(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.expect("the program listens"))
    }

    /// Connects from an address of this machine.
    pub async fn from(source: [u8; 4], address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((source, 0).into()).expect("an address of this machine");
        Self(socket.connect(address).await.expect("the program listens"))
    }

    /// Sends bytes. The other end may have closed already: what it answered can still be read.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        drop(self.0.write_all(bytes.as_ref()).await);
    }

    /// Sends bytes, all of which the other end must take.
    pub async fn send_all(&mut self, bytes: impl AsRef<[u8]>) {
        let sent = tokio::time::timeout(TIMEOUT, self.0.write_all(bytes.as_ref())).await;
        sent.unwrap_or_else(|_| panic!("not sent in {TIMEOUT:?}")).expect("the connection stands");
    }

    /// Reads one answer; `None` when the connection ends without one.
    pub async fn answer(&mut self) -> Option<RawAnswer> {
        let read = tokio::time::timeout(TIMEOUT, self.read_answer()).await;
        read.unwrap_or_else(|_| panic!("no answer in {TIMEOUT:?}"))
    }

    /// Reads exactly this text.
    pub async fn until(&mut self, text: &str) {
        let mut received = vec![0; text.len()];
        let read = tokio::time::timeout(TIMEOUT, self.0.read_exact(&mut received)).await;
        read.unwrap_or_else(|_| panic!("not in {TIMEOUT:?}: {text}")).expect("the connection stands");
        assert_eq!(String::from_utf8_lossy(&received), text);
    }

    /// Waits until the other end closes the connection.
    pub async fn until_closed(&mut self) {
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(TIMEOUT, self.0.read_to_end(&mut rest)).await;
        // Closed or reset: either is an end.
        drop(closed.unwrap_or_else(|_| panic!("still open after {TIMEOUT:?}")));
    }

    /// Checks that the other end closes the connection without a reset, which could have overtaken what it sent last.
    pub async fn until_closed_in_order(&mut self) {
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(TIMEOUT, self.0.read_to_end(&mut rest)).await;
        let closed = closed.unwrap_or_else(|_| panic!("still open after {TIMEOUT:?}"));
        closed.unwrap_or_else(|error| panic!("the connection was reset: {error}"));
        assert_eq!(String::from_utf8_lossy(&rest), "", "more was sent");
    }

    async fn read_answer(&mut self) -> Option<RawAnswer> {
        let mut received = Vec::new();
        loop {
            if let Some(answer) = RawAnswer::parse(&received) {
                return Some(answer);
            }
            match self.0.read_buf(&mut received).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return None,
            }
        }
    }
}

impl RawAnswer {
    /// `None` while it is incomplete.
    fn parse(received: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(received);
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let length: usize = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        })?;
        Some(Self { status, head: head.to_owned(), body: body.get(..length)?.to_owned() })
    }
}

/// Request line and headers of a request, without `content-length` and without the empty line that ends them.
pub fn head(request: &Outgoing) -> Vec<u8> {
    let mut head =
        format!("{} {} HTTP/1.1\r\nhost: connect\r\n", request.method, request.target).into_bytes();
    for (name, value) in &request.headers {
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    }
    head
}
