//! A caller of the API: one HTTP/1.1 connection that is kept alive. It parses no more of a response than it must,
//! because it shares the processor with the programs that it measures.

use crate::time_limit::STEP_TIMEOUT;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A client with one connection.
#[derive(Debug)]
pub(crate) struct Caller {
    stream: TcpStream,
    received: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// `Retry-After`, in seconds.
    pub(crate) retry_after: Option<u32>,
    pub(crate) body: String,
}

impl Caller {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`connect`](Self::connect), for a connection that may be refused.
    pub(crate) async fn try_connect(address: SocketAddr) -> Result<Self, String> {
        let connected = timeout(STEP_TIMEOUT, TcpStream::connect(address)).await;
        let connected =
            connected.map_err(|_| format!("no connection to {address} within {STEP_TIMEOUT:?}"))?;
        let stream = connected.map_err(|error| format!("no connection to {address}: {error}"))?;
        stream.set_nodelay(true).map_err(|error| format!("TCP_NODELAY cannot be set: {error}"))?;
        Ok(Self { stream, received: Vec::with_capacity(16 << 10) })
    }

    /// Sends a request and waits for its response.
    pub(crate) async fn send(&mut self, request: &[u8]) -> Response {
        self.try_send(request).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`send`](Self::send), for a server that may close the connection without a response.
    pub(crate) async fn try_send(&mut self, request: &[u8]) -> Result<Response, String> {
        let exchange = timeout(STEP_TIMEOUT, self.exchange(request)).await;
        exchange.unwrap_or_else(|_| Err(format!("no response within {STEP_TIMEOUT:?}")))
    }

    async fn exchange(&mut self, request: &[u8]) -> Result<Response, String> {
        let sent = self.stream.write_all(request).await;
        sent.map_err(|error| format!("a request cannot be sent: {error}"))?;
        self.received.clear();
        let head = loop {
            if let Some(end) = find_end_of_head(&self.received) {
                break end;
            }
            self.read_more().await?;
        };
        let (status, length, retry_after) = read_head(&self.received[..head])?;
        while self.received.len() < head + length {
            self.read_more().await?;
        }
        let body = String::from_utf8_lossy(&self.received[head..head + length]).into_owned();
        Ok(Response { status, retry_after, body })
    }

    async fn read_more(&mut self) -> Result<(), String> {
        match self.stream.read_buf(&mut self.received).await {
            Ok(0) => Err("the server closed the connection instead of responding".to_owned()),
            Ok(_) => Ok(()),
            Err(error) => Err(format!("a response cannot be read: {error}")),
        }
    }
}

/// Status, length of the body, and `Retry-After`.
fn read_head(head: &[u8]) -> Result<(u16, usize, Option<u32>), String> {
    let text = std::str::from_utf8(head).map_err(|_| "the head of a response is not UTF-8".to_owned())?;
    let status = text.get(9..12).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| format!("no status line: {text}"))?;
    let (mut length, mut retry_after) = (0, None);
    for line in text.lines().skip(1) {
        let Some((name, value)) = line.split_once(':') else { continue };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(|_| format!("not a length: {line}"))?;
        } else if name.eq_ignore_ascii_case("retry-after") {
            retry_after = value.trim().parse().ok();
        }
    }
    Ok((status, length, retry_after))
}

/// The offset of the body.
pub(crate) fn find_end_of_head(bytes: &[u8]) -> Option<usize> {
    const END: &[u8] = b"\r\n\r\n";
    bytes.windows(END.len()).position(|window| window == END).map(|start| start + END.len())
}

#[cfg(test)]
mod tests {
    use super::read_head;

    #[test]
    fn reads_status_length_and_retry_after() {
        let head = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Length: 42\r\n\r\n";
        assert_eq!(read_head(head.as_bytes()), Ok((503, 42, Some(7))));
        assert_eq!(read_head(b"HTTP/1.1 304 Not Modified\r\n\r\n"), Ok((304, 0, None)));
        assert!(read_head(b"HTTP/1.1 ok\r\n\r\n").is_err());
    }
}
