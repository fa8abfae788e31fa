//! A connection to a receiver, with TLS or, in development, without.

use super::response_head::ResponseHead;
use hyper_util::client::legacy::connect::{Connected, Connection};
use socket2::SockRef;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

/// Maximum number of connections that are reused. Further ones serve one request each, so that idle connections to many
/// receivers cannot exhaust the process's file descriptors.
const KEPT: usize = 512;

#[derive(Clone, Debug, Default)]
pub(super) struct OpenConnections(Arc<AtomicUsize>);

/// A connection to a receiver, with TLS or without.
#[derive(Debug)]
pub struct ReceiverStream {
    transport: Transport,
    phase: Phase,
    head: ResponseHead,
    /// Longest time to send a request.
    limit: Duration,
    /// Timeout that starts when a write blocks. Otherwise a receiver that reads nothing would keep the connection open forever,
    /// because hyper waits for it after the request has timed out.
    stalled: Option<Pin<Box<Sleep>>>,
    counted: CountedConnection,
}

/// The phase of an exchange on a connection.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// A request is being sent.
    Sending,
    /// The request was sent completely.
    Sent,
    /// The response has begun. The next write belongs to the next request.
    ResponseBegun,
}

/// The receiver had closed the connection before a request was sent on it: nothing of the request was sent.
#[derive(Clone, Copy, Debug, Error)]
#[error("the receiver closed the idle connection before the request was sent")]
pub struct NotBegun;

/// Left is plain, right is TLS.
type Transport = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// Counts a connection as open until it is dropped.
#[derive(Debug)]
struct CountedConnection {
    open: OpenConnections,
    keep: bool,
}

impl OpenConnections {
    fn count(&self) -> CountedConnection {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        CountedConnection { open: self.clone(), keep: before < KEPT }
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.open.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ReceiverStream {
    /// `limit` is the longest time to send a request.
    pub(super) fn plain(stream: TcpStream, limit: Duration, open: &OpenConnections) -> Self {
        Self::new(Either::Left(stream), limit, open)
    }

    /// `limit` is the longest time to send a request.
    pub(super) fn tls(stream: TlsStream<TcpStream>, limit: Duration, open: &OpenConnections) -> Self {
        Self::new(Either::Right(Box::new(stream)), limit, open)
    }

    fn new(transport: Transport, limit: Duration, open: &OpenConnections) -> Self {
        Self {
            transport,
            phase: Phase::Sending,
            head: ResponseHead::default(),
            limit,
            stalled: None,
            counted: open.count(),
        }
    }

    /// Called before each write. A receiver may close an idle connection at any time, and the runtime learns of it later; a
    /// request written meanwhile would be lost. So the socket itself is checked.
    fn begin(&mut self) -> io::Result<()> {
        if !matches!(self.phase, Phase::Sending) {
            self.head.begin();
        }
        if matches!(self.phase, Phase::ResponseBegun) && !is_quiet(tcp(&self.transport)) {
            return Err(io::Error::other(NotBegun));
        }
        self.phase = Phase::Sending;
        Ok(())
    }

    /// Applies the timeout to a write that blocks.
    fn in_time<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(self.limit)));
        stalled.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

fn tcp(transport: &Transport) -> &TcpStream {
    match transport {
        Either::Left(stream) => stream,
        Either::Right(stream) => stream.get_ref().0,
    }
}

/// Whether there is nothing to read. Between two exchanges the receiver can only send a close notification.
fn is_quiet(stream: &TcpStream) -> bool {
    let peeked = SockRef::from(stream).peek(&mut [MaybeUninit::uninit()]);
    matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

impl Connection for ReceiverStream {
    fn connected(&self) -> Connected {
        let connected = Connected::new().extra(self.head.seen.clone());
        if !self.counted.keep {
            connected.poison();
        }
        connected
    }
}

impl AsyncRead for ReceiverStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.transport).poll_read(cx, buffer))?;
        if matches!(self.phase, Phase::Sent) && buffer.filled().len() > before {
            self.phase = Phase::ResponseBegun;
        }
        Poll::Ready(self.head.read(&buffer.filled()[before..]))
    }
}

impl AsyncWrite for ReceiverStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.begin()?;
        let written = Pin::new(&mut self.transport).poll_write(cx, bytes);
        self.in_time(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>, cx: &mut Context<'_>, slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.begin()?;
        let written = Pin::new(&mut self.transport).poll_write_vectored(cx, slices);
        self.in_time(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.is_write_vectored()
    }

    /// Called when all of a request is written.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.transport).poll_flush(cx);
        ready!(self.in_time(cx, flushed))?;
        self.stalled = None;
        if matches!(self.phase, Phase::Sending) {
            self.phase = Phase::Sent;
        }
        Poll::Ready(Ok(()))
    }

    /// Shuts the connection down without waiting for a receiver that does not read, which could keep it open forever.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.transport).poll_shutdown(cx);
        if closed.is_pending() { Poll::Ready(Ok(())) } else { closed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt as _;

    #[tokio::test]
    async fn a_blocked_write_times_out() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let _unread = listener.accept().await.unwrap();
        let limit = Duration::from_millis(50);
        let mut stream = ReceiverStream::plain(stream, limit, &OpenConnections::default());
        let error = stream.write_all(&vec![0; 64 << 20]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn beyond_the_bound_connections_are_for_one_request() {
        let open = OpenConnections::default();
        let mut all: Vec<CountedConnection> = (0..KEPT).map(|_| open.count()).collect();
        assert!(all.iter().all(|counted| counted.keep));
        assert!(!open.count().keep);
        all.pop();
        assert!(open.count().keep);
    }
}
