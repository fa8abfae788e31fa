//! Requests byte by byte, as no proper client sends them.

use crate::http::HttpRequest;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

const TIMEOUT: Duration = Duration::from_secs(180);

/// A connection that sends any bytes.
#[derive(Debug)]
pub struct RawConnection {
    stream: TcpStream,
    /// ReceivedRequest bytes that are not part of a parsed response yet.
    received: Vec<u8>,
}

/// A response as text.
#[derive(Clone, Debug)]
pub struct RawResponse {
    /// The HTTP status code.
    pub status: u16,
    /// Status line and headers.
    pub head: String,
    /// The response body as text.
    pub body: String,
}

impl RawConnection {
    /// Connects to a program.
    pub async fn to(address: SocketAddr) -> Self {
        Self::on(TcpStream::connect(address).await)
    }

    /// Connects from an address of this machine.
    pub async fn from(source: [u8; 4], address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((source, 0).into()).expect("an address of this machine");
        Self::on(socket.connect(address).await)
    }

    fn on(connected: std::io::Result<TcpStream>) -> Self {
        let stream = connected.expect("the program listens");
        stream.set_nodelay(true).expect("an option of the socket");
        Self { stream, received: Vec::new() }
    }

    /// Sends bytes. The other end may have closed already: its response can still be read.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        drop(self.stream.write_all(bytes.as_ref()).await);
    }

    /// Sends a request with a `content-length`, and does not wait for the response.
    pub async fn send_request(&mut self, request: &HttpRequest) {
        let length = format!("content-length: {}\r\n\r\n", request.body.len());
        self.send([head(request).as_slice(), length.as_bytes(), &request.body].concat()).await;
    }

    /// Sends bytes, all of which the other end must take.
    pub async fn send_all(&mut self, bytes: impl AsRef<[u8]>) {
        let sent = tokio::time::timeout(TIMEOUT, self.stream.write_all(bytes.as_ref())).await;
        sent.unwrap_or_else(|_| panic!("not sent in {TIMEOUT:?}")).expect("the connection stands");
    }

    /// Reads one response; `None` when the connection ends without one.
    pub async fn response(&mut self) -> Option<RawResponse> {
        let read = tokio::time::timeout(TIMEOUT, self.read_response()).await;
        read.unwrap_or_else(|_| panic!("no response in {TIMEOUT:?}"))
    }

    /// Reads exactly this text.
    pub async fn until(&mut self, text: &str) {
        assert_eq!(self.take(text.len()).await, text);
    }

    /// Reads so many bytes of text.
    pub async fn take(&mut self, length: usize) -> String {
        let before = self.received.len().min(length);
        let mut received: Vec<u8> = self.received.drain(..before).collect();
        received.resize(length, 0);
        let read = tokio::time::timeout(TIMEOUT, self.stream.read_exact(&mut received[before..])).await;
        read.unwrap_or_else(|_| panic!("not {length} bytes in {TIMEOUT:?}")).expect("the connection stands");
        String::from_utf8_lossy(&received).into_owned()
    }

    /// Waits until the other end closes the connection.
    pub async fn until_closed(&mut self) {
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(TIMEOUT, self.stream.read_to_end(&mut rest)).await;
        // Closed or reset: either is an end.
        drop(closed.unwrap_or_else(|_| panic!("still open after {TIMEOUT:?}")));
    }

    /// Checks that the other end closes the connection without another response, and without a reset, which could have
    /// overtaken what it sent last.
    pub async fn until_closed_in_order(&mut self) {
        let closed = tokio::time::timeout(TIMEOUT, self.stream.read_to_end(&mut self.received)).await;
        let closed = closed.unwrap_or_else(|_| panic!("still open after {TIMEOUT:?}"));
        closed.unwrap_or_else(|error| panic!("the connection was reset: {error}"));
        // A reset behind the end is no error of the read.
        let error = self.stream.take_error().expect("the socket's state");
        assert!(error.is_none(), "the connection was reset: {error:?}");
        assert_eq!(String::from_utf8_lossy(&self.received), "", "more was sent");
    }

    async fn read_response(&mut self) -> Option<RawResponse> {
        loop {
            if let Some((response, length)) = RawResponse::parse(&self.received) {
                self.received.drain(..length);
                return Some(response);
            }
            match self.stream.read_buf(&mut self.received).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return None,
            }
        }
    }
}

/// Sends bytes on a new connection and returns the response.
pub async fn exchange(address: SocketAddr, bytes: impl AsRef<[u8]>) -> RawResponse {
    let mut connection = RawConnection::to(address).await;
    connection.send(&bytes).await;
    let response = connection.response().await;
    response.unwrap_or_else(|| panic!("no response to {:?}", String::from_utf8_lossy(bytes.as_ref())))
}

impl RawResponse {
    /// The first response, and how many bytes it is; `None` while it is incomplete.
    fn parse(received: &[u8]) -> Option<(Self, usize)> {
        const HEAD_END: &[u8] = b"\r\n\r\n";
        let head_length = received.windows(HEAD_END.len()).position(|bytes| bytes == HEAD_END)?;
        let head = String::from_utf8_lossy(&received[..head_length]).into_owned();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let length: usize = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        })?;
        let begin = head_length + HEAD_END.len();
        let body = String::from_utf8_lossy(received.get(begin..begin + length)?).into_owned();
        Some((Self { status, head, body }, begin + length))
    }
}

/// Request line and headers of a request, without `content-length` and without the empty line that ends them.
pub fn head(request: &HttpRequest) -> Vec<u8> {
    let mut head = format!("{} {} HTTP/1.1\r\nhost: connect\r\n", request.method, request.target).into_bytes();
    for (name, value) in &request.headers {
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    }
    head
}
