//! The end of a connection: closed so that its last response arrives (RFC 9112, 9.6).
//!
//! A socket that is closed while bytes are on their way to it resets the connection, and a reset may overtake the response.
//! So the sending side ends first, and what still arrives is read and discarded until the caller closes, too.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// Longest that a caller may take to close.
const LINGER: Duration = Duration::from_secs(2);
/// Most bytes that are discarded: as many as a body may have by default.
const DISCARDED_MAX: usize = 4 << 20;
/// Bytes that are read at once.
const BUFFER: usize = 8 * 1024;

/// Whether a connection waits for its caller to close. It does, unless it is told not to.
#[derive(Clone, Debug)]
pub(crate) struct LingerSwitch(Arc<AtomicBool>);

impl LingerSwitch {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    pub(crate) fn set(&self, is_on: bool) {
        self.0.store(is_on, Ordering::Relaxed);
    }
}

/// The wait for a caller to close.
#[derive(Debug)]
pub(crate) struct LingeringClose {
    switch: LingerSwitch,
    until: Option<Pin<Box<Sleep>>>,
    left: usize,
}

impl LingeringClose {
    pub(crate) const fn new(switch: LingerSwitch) -> Self {
        Self { switch, until: None, left: DISCARDED_MAX }
    }

    /// Discards what arrives on `socket`, whose sending side has ended. Ready when the caller has closed, has sent too much,
    /// or has taken too long.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>, socket: &mut TcpStream) -> Poll<()> {
        if !self.switch.0.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        if until.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let mut bytes = [0; BUFFER];
        while self.left > 0 {
            let mut buffer = ReadBuf::new(&mut bytes);
            let read = ready!(Pin::new(&mut *socket).poll_read(context, &mut buffer));
            let discarded = buffer.filled().len();
            if read.is_err() || discarded == 0 {
                break;
            }
            self.left = self.left.saturating_sub(discarded);
        }
        Poll::Ready(())
    }
}
