//! The socket of an HTTP connection: limits what its caller may take, and lingers on close.
//!
//! - A head must arrive within a time of its first byte, and a connection may be idle for a longer one. Load balancers keep
//!   idle connections for a minute and more, and whoever closes first breaks the request that is on its way. hyper has one
//!   time for both, so this socket takes its place.
//! - A response that nobody reads is waited for as long as for the next request.
//! - A socket that is closed while bytes are on their way to it resets the connection, and a reset may overtake the last
//!   response (RFC 9112, 9.6). So the sending side is shut down first, and arriving bytes are discarded until the caller
//!   closes, too.

use super::times::ConnectionTimes;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// The longest time for the caller to close.
const LINGER: Duration = Duration::from_secs(2);
/// The most bytes that are discarded: the default limit of a body.
const DISCARDED_MAX: usize = 4 << 20;
/// Bytes that are discarded at once.
const BUFFER: usize = 8 * 1024;

/// What the task that handles a connection's requests tells its socket.
#[derive(Clone, Debug)]
pub(super) struct SocketState(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Requests that have begun and that have ended: odd with one under way.
    steps: AtomicU64,
    /// Whether the connection waits for its caller to close.
    lingers: AtomicBool,
}

/// A request that is under way on a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct RequestUnderWay(SocketState);

impl SocketState {
    pub(super) fn begin_request(&self) -> RequestUnderWay {
        self.0.steps.fetch_add(1, Ordering::Relaxed);
        RequestUnderWay(self.clone())
    }

    pub(super) fn set_lingering(&self, lingers: bool) {
        self.0.lingers.store(lingers, Ordering::Relaxed);
    }
}

impl Drop for RequestUnderWay {
    fn drop(&mut self) {
        self.0.0.steps.fetch_add(1, Ordering::Relaxed);
    }
}

/// Passes all bytes on unchanged. Fails with [`io::ErrorKind::TimedOut`] when the caller takes too long.
#[derive(Debug)]
pub(super) struct HttpSocket {
    socket: TcpStream,
    times: ConnectionTimes,
    state: SocketState,
    /// The step in which the current wait for the caller began.
    step: u64,
    /// Whether a part of a head has arrived. A new connection should send one soon.
    is_in_head: bool,
    reading: Deadline,
    writing: Deadline,
    /// Whether the sending side has ended.
    is_shut_down: bool,
    discarded: usize,
    linger: Option<Pin<Box<Sleep>>>,
}

/// A deadline that moves far more often than it passes: its timer stays as it is as long as it fires early enough.
#[derive(Debug, Default)]
struct Deadline {
    at: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Deadline {
    /// Pending until the deadline, which is `within` from now if there is none yet; then the error.
    fn poll(&mut self, context: &mut Context<'_>, within: Duration) -> Poll<io::Error> {
        let at = *self.at.get_or_insert_with(|| Instant::now() + within);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if timer.deadline() > at {
            timer.as_mut().reset(at);
        }
        loop {
            ready!(timer.as_mut().poll(context));
            if timer.deadline() >= at {
                return Poll::Ready(io::ErrorKind::TimedOut.into());
            }
            timer.as_mut().reset(at);
        }
    }
}

impl HttpSocket {
    pub(super) fn new(socket: TcpStream, times: ConnectionTimes) -> Self {
        let shared = Shared { steps: AtomicU64::new(0), lingers: AtomicBool::new(true) };
        Self {
            socket,
            times,
            state: SocketState(Arc::new(shared)),
            step: 0,
            is_in_head: true,
            reading: Deadline::default(),
            writing: Deadline::default(),
            is_shut_down: false,
            discarded: 0,
            linger: None,
        }
    }

    pub(super) fn state(&self) -> SocketState {
        self.state.clone()
    }

    /// Discards what arrives once the sending side has ended. Ready when the caller has closed, has sent too much, or has taken
    /// too long.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.state.0.lingers.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        let linger = self.linger.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        if linger.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let mut bytes = [0; BUFFER];
        while self.discarded < DISCARDED_MAX {
            let mut buffer = ReadBuf::new(&mut bytes);
            let read = ready!(Pin::new(&mut self.socket).poll_read(context, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                break;
            }
            self.discarded += buffer.filled().len();
        }
        Poll::Ready(())
    }

    /// A write that waits does so for as long as for the next request.
    fn poll_unread<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_pending() {
            return self.writing.poll(context, self.times.idle).map(Err);
        }
        self.writing.at = None;
        written
    }
}

impl AsyncRead for HttpSocket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let read = Pin::new(&mut this.socket).poll_read(context, buffer);
        let step = this.state.0.steps.load(Ordering::Relaxed);
        if this.step != step {
            (this.step, this.is_in_head, this.reading.at) = (step, false, None);
        }
        let is_under_way = step % 2 == 1;
        match read {
            // A body has a limit of its own.
            _ if is_under_way => {}
            Poll::Pending => {
                let within = if this.is_in_head { this.times.head } else { this.times.idle };
                return this.reading.poll(context, within).map(Err);
            }
            Poll::Ready(_) if !this.is_in_head => (this.is_in_head, this.reading.at) = (true, None),
            Poll::Ready(_) => {}
        }
        read
    }
}

impl AsyncWrite for HttpSocket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.poll_unread(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>, context: &mut Context<'_>, slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, slices);
        self.poll_unread(context, written)
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
        this.poll_linger(context).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt as _, poll};
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    const TIMES: ConnectionTimes = ConnectionTimes::DEFAULT;

    /// A socket and its caller's.
    async fn connection() -> (HttpSocket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (accepted, caller) = tokio::join!(listener.accept(), TcpStream::connect(address));
        (HttpSocket::new(accepted.unwrap().0, TIMES), caller.unwrap())
    }

    /// The time that the socket waits for its caller from now on, in whole seconds.
    async fn wait(socket: &mut HttpSocket) -> u64 {
        let begun = Instant::now();
        assert!(poll!(Box::pin(socket.read_u8())).is_pending());
        let at = socket.reading.at.expect("a deadline");
        // It was set a moment ago.
        (at - begun + Duration::from_millis(900)).as_secs()
    }

    #[tokio::test]
    async fn a_head_has_less_time_than_an_idle_connection() {
        let (mut socket, mut caller) = connection().await;
        let state = socket.state();
        assert_eq!(wait(&mut socket).await, 10, "of a new connection");
        caller.write_all(b"G").await.unwrap();
        let request = async {
            assert_eq!(socket.read_u8().await.unwrap(), b'G');
            let request = state.begin_request();
            assert!(poll!(Box::pin(socket.read_u8())).is_pending());
            assert_eq!(socket.reading.at, None, "with a request under way");
            drop(request);
        };
        request.await;
        assert_eq!(wait(&mut socket).await, 75, "after a request");
        caller.write_all(b"GE").await.unwrap();
        assert_eq!(socket.read_u8().await.unwrap(), b'G');
        assert_eq!(socket.read_u8().await.unwrap(), b'E');
        assert_eq!(wait(&mut socket).await, 10, "of the rest of a head");
        // Only a failing test waits for so long.
        socket.reading.at = Some(Instant::now());
        assert_eq!(socket.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_response_that_nobody_reads_is_waited_for_no_longer_than_a_request() {
        let (mut socket, _caller) = connection().await;
        socket.times.idle = Duration::from_millis(20);
        let error = loop {
            if let Err(error) = socket.write(&[0; BUFFER]).await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn what_arrives_is_discarded_until_the_caller_closes() {
        const SENT: usize = DISCARDED_MAX / 2;
        let (mut socket, mut caller) = connection().await;
        assert!(poll_fn(|context| socket.poll_linger(context)).now_or_never().is_none());
        let send = async {
            caller.write_all(&vec![0; SENT]).await.unwrap();
            caller.shutdown().await.unwrap();
        };
        tokio::join!(poll_fn(|context| socket.poll_linger(context)), send);
        assert_eq!(socket.discarded, SENT);
    }

    #[tokio::test]
    async fn a_caller_that_sends_too_much_or_does_not_close_is_not_waited_for() {
        let (mut socket, mut caller) = connection().await;
        let send = async { while caller.write_all(&[0; BUFFER]).await.is_ok() {} };
        tokio::select! {
            () = poll_fn(|context| socket.poll_linger(context)) => {}
            () = send => panic!("the connection is open"),
        }
        assert!(socket.discarded >= DISCARDED_MAX);

        let (mut socket, _caller) = connection().await;
        assert!(poll_fn(|context| socket.poll_linger(context)).now_or_never().is_none());
        socket.linger.as_mut().expect("the wait has begun").as_mut().reset(Instant::now());
        poll_fn(|context| socket.poll_linger(context)).await;
        socket.state().set_lingering(false);
        socket.linger = None;
        assert!(poll_fn(|context| socket.poll_linger(context)).now_or_never().is_some());
    }
}
