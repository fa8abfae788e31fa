//! The time that a request's head may take, as one timer for each connection.
//!
//! hyper creates a timer for each head. Tokio's would be inserted into the runtime's timer wheel and removed again for each
//! request, under a lock. The deadlines of a connection only grow, so this timer stays as it is for a new head, and moves to
//! the current deadline when it fires.

use hyper::rt::{Sleep, Timer};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// The timer of a connection.
#[derive(Clone, Debug)]
pub(crate) struct HeadTimer(Arc<Mutex<Pin<Box<tokio::time::Sleep>>>>);

/// Completes at its deadline.
struct HeadDeadline {
    timer: HeadTimer,
    deadline: Instant,
}

impl HeadTimer {
    /// A timer of which no deadline is nearer than `shortest`.
    pub(crate) fn new(shortest: Duration) -> Self {
        Self(Arc::new(Mutex::new(Box::pin(tokio::time::sleep(shortest)))))
    }
}

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(HeadDeadline { timer: self.clone(), deadline })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

impl Future for HeadDeadline {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut sleep = self.timer.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            ready!(sleep.as_mut().poll(context));
            if sleep.deadline().into_std() >= self.deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(self.deadline.into());
        }
    }
}

impl Sleep for HeadDeadline {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_deadline_is_kept_however_many_came_before() {
        let within = Duration::from_millis(20);
        let timer = HeadTimer::new(within);
        // A head that arrives in time ends its wait early; the next one has its whole time.
        assert!(futures_util::poll!(timer.sleep(within)).is_pending());
        for _ in 0..3 {
            let deadline = timer.now() + within;
            // Only a failing test waits for so long.
            let ended = tokio::time::timeout(Duration::from_secs(30), timer.sleep_until(deadline)).await;
            assert!(ended.is_ok(), "the deadline has passed");
            assert!(timer.now() >= deadline);
        }
    }
}
