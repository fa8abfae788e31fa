//! A connection to a receiver, with TLS or, in development, without.

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

/// Connections kept for the next request, in all. Those beyond are for one request each, so that idle connections
/// to many receivers can't use up the process's descriptors.
const KEPT: usize = 512;

/// How many connections there are.
#[derive(Clone, Debug, Default)]
pub(super) struct Open(Arc<AtomicUsize>);

#[derive(Debug)]
pub(super) struct ReceiverStream {
    transport: Transport,
    phase: Phase,
    /// How long a request may take to go out.
    limit: Duration,
    /// Runs from when a request could go no further at once. A receiver that reads nothing would otherwise hold the
    /// connection for ever: who has given up on the request no longer waits for it, but hyper does.
    stalled: Option<Pin<Box<Sleep>>>,
    counted: Counted,
}

/// Where in an exchange a connection is.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// A request goes out, the first one or one that is begun.
    Sending,
    /// It is out.
    Sent,
    /// The response came, at least its begin. What is written next is another request.
    Answered,
}

/// The receiver had closed the connection before a request was begun on it: nothing of it was sent.
#[derive(Clone, Copy, Debug, Error)]
#[error("the connection was closed before the request")]
pub(super) struct NotBegun;

#[derive(Debug)]
enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Counts while it lives.
#[derive(Debug)]
struct Counted {
    open: Open,
    keep: bool,
}

impl Open {
    fn count(&self) -> Counted {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        Counted { open: self.clone(), keep: before < KEPT }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.open.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ReceiverStream {
    /// `limit` is for each request to go out.
    pub(super) fn plain(stream: TcpStream, limit: Duration, open: &Open) -> Self {
        Self::new(Transport::Plain(stream), limit, open)
    }

    /// `limit` is for each request to go out.
    pub(super) fn tls(stream: TlsStream<TcpStream>, limit: Duration, open: &Open) -> Self {
        Self::new(Transport::Tls(Box::new(stream)), limit, open)
    }

    fn new(transport: Transport, limit: Duration, open: &Open) -> Self {
        Self { transport, phase: Phase::Sending, limit, stalled: None, counted: open.count() }
    }

    /// Before each write. A receiver may close an idle connection at any time; the runtime hears of it a little later,
    /// and a request that is written meanwhile is lost without a trace. So the system itself is asked.
    fn begin(&mut self) -> io::Result<()> {
        if matches!(self.phase, Phase::Answered) && !is_quiet(self.transport.tcp()) {
            return Err(io::Error::other(NotBegun));
        }
        self.phase = Phase::Sending;
        Ok(())
    }

    /// After each write.
    fn in_time<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(self.limit)));
        stalled.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Transport {
    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
}

/// Whether nothing is there to be read. Between two exchanges, all that can come is an end, or word of one.
fn is_quiet(stream: &TcpStream) -> bool {
    let peeked = SockRef::from(stream).peek(&mut [MaybeUninit::uninit()]);
    matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

impl Connection for ReceiverStream {
    fn connected(&self) -> Connected {
        let connected = Connected::new();
        if !self.counted.keep {
            connected.poison();
        }
        connected
    }
}

impl AsyncRead for ReceiverStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Transport::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        })?;
        if matches!(self.phase, Phase::Sent) && buffer.filled().len() > before {
            self.phase = Phase::Answered;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ReceiverStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.begin()?;
        let written = match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Transport::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        };
        self.in_time(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.begin()?;
        let written = match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Transport::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        };
        self.in_time(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }

    /// Called when all of a request is written.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(cx),
        };
        ready!(self.in_time(cx, flushed))?;
        self.stalled = None;
        if matches!(self.phase, Phase::Sending) {
            self.phase = Phase::Sent;
        }
        Poll::Ready(Ok(()))
    }

    /// Says goodbye, but doesn't wait for a receiver that reads no more: it could hold the connection for ever.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let farewell = match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        };
        if farewell.is_pending() { Poll::Ready(Ok(())) } else { farewell }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt as _;

    #[tokio::test]
    async fn what_a_receiver_does_not_read_is_given_up() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let _unread = listener.accept().await.unwrap();
        let limit = Duration::from_millis(50);
        let mut stream = ReceiverStream::plain(stream, limit, &Open::default());
        let error = stream.write_all(&vec![0; 64 << 20]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn beyond_the_bound_connections_are_for_one_request() {
        let open = Open::default();
        let mut all: Vec<Counted> = (0..KEPT).map(|_| open.count()).collect();
        assert!(all.iter().all(|counted| counted.keep));
        assert!(!open.count().keep);
        all.pop();
        assert!(open.count().keep);
    }
}
