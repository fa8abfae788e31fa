//! Lingering close: ends a connection so that its last response arrives (RFC 9112, 9.6).
//!
//! A socket that is closed while bytes are on their way to it resets the connection, and a reset may overtake the response.
//! So the sending side is shut down first, and arriving bytes are discarded until the caller closes, too.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// The longest time for the caller to close.
const LINGER: Duration = Duration::from_secs(2);
/// The most bytes that are discarded: the default limit of a body.
const DISCARDED_MAX: usize = 4 << 20;
/// Bytes that are read at once.
const BUFFER: usize = 8 * 1024;

/// Whether a connection waits for its caller to close. On by default.
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

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::future::poll_fn;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use tokio::time::Instant;

    /// A socket and its caller's.
    async fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (accepted, caller) = tokio::join!(listener.accept(), TcpStream::connect(address));
        (accepted.unwrap().0, caller.unwrap())
    }

    fn has_timed_out(close: &LingeringClose) -> bool {
        close.until.as_ref().is_some_and(|until| until.is_elapsed())
    }

    #[tokio::test]
    async fn what_arrives_is_discarded_until_the_caller_closes() {
        const SENT: usize = DISCARDED_MAX / 2;
        let (mut socket, mut caller) = connection().await;
        let mut close = LingeringClose::new(LingerSwitch::new());
        assert!(poll_fn(|context| close.poll(context, &mut socket)).now_or_never().is_none());
        let send = async {
            caller.write_all(&vec![0; SENT]).await.unwrap();
            caller.shutdown().await.unwrap();
        };
        tokio::join!(poll_fn(|context| close.poll(context, &mut socket)), send);
        assert_eq!((close.left, has_timed_out(&close)), (DISCARDED_MAX - SENT, false));
    }

    #[tokio::test]
    async fn a_caller_that_sends_too_much_is_not_waited_for() {
        let (mut socket, mut caller) = connection().await;
        let mut close = LingeringClose::new(LingerSwitch::new());
        let send = async { while caller.write_all(&[0; BUFFER]).await.is_ok() {} };
        tokio::select! {
            () = poll_fn(|context| close.poll(context, &mut socket)) => {}
            () = send => panic!("the connection is open"),
        }
        assert_eq!((close.left, has_timed_out(&close)), (0, false));
    }

    #[tokio::test]
    async fn a_caller_that_does_not_close_is_waited_for_two_seconds() {
        let (mut socket, _caller) = connection().await;
        let mut close = LingeringClose::new(LingerSwitch::new());
        let begun = Instant::now();
        assert!(poll_fn(|context| close.poll(context, &mut socket)).now_or_never().is_none());
        let until = close.until.as_mut().expect("the wait has begun");
        assert!((begun + LINGER..=Instant::now() + LINGER).contains(&until.deadline()));
        until.as_mut().reset(Instant::now());
        poll_fn(|context| close.poll(context, &mut socket)).await;
    }

    #[tokio::test]
    async fn a_connection_that_is_told_not_to_wait_does_not() {
        let (mut socket, _caller) = connection().await;
        let switch = LingerSwitch::new();
        let mut close = LingeringClose::new(switch.clone());
        switch.set(false);
        assert!(poll_fn(|context| close.poll(context, &mut socket)).now_or_never().is_some());
    }
}
