//! A connection's socket as hyper uses it: the framing of what arrives is followed, and its end lets the last response arrive.

use crate::framing::FramingWatch;
use crate::linger::LingeringClose;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Passes all bytes on unchanged.
#[derive(Debug)]
pub(crate) struct WatchedSocket {
    socket: TcpStream,
    framing: FramingWatch,
    close: LingeringClose,
    /// Whether the sending side has ended.
    is_shut_down: bool,
}

impl WatchedSocket {
    /// Watches what `socket` receives from now on.
    pub(crate) const fn new(socket: TcpStream, framing: FramingWatch, close: LingeringClose) -> Self {
        Self { socket, framing, close, is_shut_down: false }
    }
}

impl AsyncRead for WatchedSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.socket).poll_read(context, buffer))?;
        this.framing.receive(buffer.filled().get(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WatchedSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.is_shut_down {
            ready!(Pin::new(&mut this.socket).poll_shutdown(context))?;
            this.is_shut_down = true;
        }
        this.close.poll(context, &mut this.socket).map(Ok)
    }
}
