//! A caller of the API: one HTTP/1.1 connection that is kept alive. It parses no more of a response than it must,
//! because it shares the processor with what it measures.

use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest wait for a response.
const PATIENCE: Duration = Duration::from_secs(60);

/// One connection.
#[derive(Debug)]
pub(crate) struct Caller {
    stream: TcpStream,
    received: Vec<u8>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Caller {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap_or_else(|error| panic!("{address}: {error}"));
        stream.set_nodelay(true).expect("an option of the connection");
        Self { stream, received: Vec::with_capacity(16 << 10) }
    }

    /// Sends a request and waits for its response.
    pub(crate) async fn send(&mut self, request: &[u8]) -> Response {
        self.stream
            .write_all(request)
            .await
            .unwrap_or_else(|error| panic!("a request can't be sent: {error}"));
        let received = timeout(PATIENCE, self.receive()).await;
        received.unwrap_or_else(|_| panic!("no response within {PATIENCE:?}"))
    }

    async fn receive(&mut self) -> Response {
        self.received.clear();
        let head = loop {
            if let Some(end) = find(&self.received, b"\r\n\r\n") {
                break end + 4;
            }
            self.read_more().await;
        };
        let text = String::from_utf8_lossy(&self.received[..head]).to_ascii_lowercase();
        let status = text.get(9..12).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status line: {text}"));
        let length = text.split("\r\ncontent-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        let end = head + length.and_then(|length| length.parse::<usize>().ok()).unwrap_or(0);
        while self.received.len() < end {
            self.read_more().await;
        }
        Response { status, body: String::from_utf8_lossy(&self.received[head..end]).into_owned() }
    }

    async fn read_more(&mut self) {
        let read = self.stream.read_buf(&mut self.received).await;
        let count = read.unwrap_or_else(|error| panic!("a response can't be read: {error}"));
        assert!(count > 0, "the server closed the connection instead of responding");
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
