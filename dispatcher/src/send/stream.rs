//! A connection to a receiver, with TLS or, in development, without.

use hyper_util::client::legacy::connect::{Connected, Connection};
use socket2::SockRef;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
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
    pub(super) fn plain(stream: TcpStream, open: &Open) -> Self {
        Self { transport: Transport::Plain(stream), phase: Phase::Sending, counted: open.count() }
    }

    pub(super) fn tls(stream: TlsStream<TcpStream>, open: &Open) -> Self {
        Self { transport: Transport::Tls(Box::new(stream)), phase: Phase::Sending, counted: open.count() }
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
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Transport::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.begin()?;
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Transport::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }

    /// Called when all of a request is written.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(cx),
        })?;
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
