//! The socket of an HTTP connection: parses the framing of arriving bytes, and lingers on close.

use crate::connections::framing::FramingParser;
use crate::connections::linger::LingeringClose;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Passes all bytes on unchanged.
#[derive(Debug)]
pub(crate) struct HttpSocket {
    socket: TcpStream,
    framing: FramingParser,
    close: LingeringClose,
    /// Whether the sending side has ended.
    is_shut_down: bool,
}

impl HttpSocket {
    pub(crate) const fn new(socket: TcpStream, framing: FramingParser, close: LingeringClose) -> Self {
        Self { socket, framing, close, is_shut_down: false }
    }
}

impl AsyncRead for HttpSocket {
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

impl AsyncWrite for HttpSocket {
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
