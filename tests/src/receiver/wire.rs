//! HTTP/1.1 byte by byte.

use super::received::Behavior;
use bytes::{Bytes, BytesMut};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A connection, with TLS or without.
pub(super) trait Socket: AsyncRead + AsyncWrite + Unpin + Send {
    /// The TCP stream below.
    fn tcp(&self) -> &TcpStream;
}

impl Socket for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Socket for TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

/// Reads one request with a `content-length`; what is read beyond it stays in `read`. `None` when the connection
/// ends before.
pub(super) async fn request(socket: &mut impl Socket, read: &mut BytesMut) -> Option<(String, Bytes)> {
    let head_end = loop {
        if let Some(at) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        more(socket, read).await?;
    };
    let head = String::from_utf8(read.split_to(head_end).to_vec()).ok()?;
    drop(read.split_to(4));
    let length = head.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let length: usize = length.unwrap_or(0);
    while read.len() < length {
        more(socket, read).await?;
    }
    Some((head, read.split_to(length).freeze()))
}

async fn more(socket: &mut impl Socket, read: &mut BytesMut) -> Option<()> {
    matches!(socket.read_buf(read).await, Ok(1..)).then_some(())
}

/// Waits until the other end closes.
pub(super) async fn until_closed(socket: &mut impl Socket) {
    let mut ignored = [0; 1024];
    while matches!(socket.read(&mut ignored).await, Ok(1..)) {}
}

/// Handles a request as configured. An error ends the connection.
pub(super) async fn behave(socket: &mut impl Socket, behavior: Behavior) -> io::Result<()> {
    match behavior {
        Behavior::Respond { status, headers, body, delay } => {
            wait(socket, delay).await?;
            return socket.write_all(&response(status, &headers, &body)).await;
        }
        // One that was held has been released by now.
        Behavior::Held(then) => return Box::pin(behave(socket, *then)).await,
        Behavior::Silent => until_closed(socket).await,
        Behavior::Reset => drop(socket.tcp().set_zero_linger()),
        Behavior::Close => socket.shutdown().await?,
        Behavior::Garbage(bytes) => {
            socket.write_all(&bytes).await?;
            socket.shutdown().await?;
        }
        Behavior::EndlessBody(status) => {
            socket.write_all(head(status, "transfer-encoding: chunked\r\n\r\n").as_bytes()).await?;
            endless(socket, &format!("400\r\n{}\r\n", "x".repeat(0x400)), Duration::ZERO).await?;
        }
        Behavior::StalledBody(status) => {
            socket.write_all(head(status, "content-length: 100\r\n\r\nthe begin").as_bytes()).await?;
            until_closed(socket).await;
        }
        Behavior::EndlessHead(status) => {
            socket.write_all(head(status, "").as_bytes()).await?;
            endless(socket, &format!("x-more: {}\r\n", "x".repeat(1024)), Duration::ZERO).await?;
        }
        Behavior::SlowHead(status, between) => {
            socket.write_all(head(status, "x-slow: ").as_bytes()).await?;
            endless(socket, "x", between).await?;
        }
    }
    Err(io::ErrorKind::ConnectionAborted.into())
}

fn head(status: u16, rest: &str) -> String {
    format!("HTTP/1.1 {status} Status\r\n{rest}")
}

fn response(status: u16, headers: &[(String, String)], body: &[u8]) -> Vec<u8> {
    let mut bytes = head(status, "").into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    // A 204 has no body and says nothing of its length.
    if status != 204 {
        bytes.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

/// An error when the other end closes meanwhile.
async fn wait(socket: &mut impl Socket, delay: Duration) -> io::Result<()> {
    if delay.is_zero() {
        return Ok(());
    }
    tokio::select! {
        () = tokio::time::sleep(delay) => Ok(()),
        () = until_closed(socket) => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}

/// Sends the text repeatedly until the connection ends.
async fn endless(socket: &mut impl Socket, text: &str, between: Duration) -> io::Result<()> {
    loop {
        socket.write_all(text.as_bytes()).await?;
        socket.flush().await?;
        wait(socket, between).await?;
    }
}
