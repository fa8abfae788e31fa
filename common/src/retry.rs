//! The waits between attempts to reach a dependency, until it is available again.
//!
//! Our own type instead of `backon`, which retries a whole future: here a shutdown ends the wait but never the attempt, because
//! that may be committing, and callers change what they attempt between the attempts.

use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Waits that stay the same, or double up to a longest one.
#[derive(Debug)]
pub struct RetryWaits {
    first: Duration,
    next: Duration,
    longest: Duration,
}

impl RetryWaits {
    /// The same wait after each failure.
    pub const fn every(wait: Duration) -> Self {
        Self::doubling(wait, wait)
    }

    /// `first` after the first failure, then twice the wait before, at most `longest`.
    pub const fn doubling(first: Duration, longest: Duration) -> Self {
        Self { first, next: first, longest }
    }

    /// Begins with the first wait again, because the dependency was available.
    pub const fn reset(&mut self) {
        self.next = self.first;
    }

    /// The wait after a further failure, for a caller that waits for something else as well.
    pub fn next_wait(&mut self) -> Duration {
        let wait = self.next;
        self.next = wait.saturating_mul(2).min(self.longest);
        wait
    }

    /// Waits after a failure.
    pub async fn wait(&mut self) {
        sleep(self.next_wait()).await;
    }

    /// Waits after a failure. `None`, at once, when the program shuts down.
    pub async fn wait_unless_shutdown(&mut self, shutdown: &CancellationToken) -> Option<()> {
        shutdown.run_until_cancelled(self.wait()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn waits_double_up_to_the_longest_and_begin_again_after_a_reset() {
        let mut waits = RetryWaits::doubling(ms(250), ms(900));
        assert_eq!([(); 4].map(|()| waits.next_wait()), [ms(250), ms(500), ms(900), ms(900)]);
        waits.reset();
        assert_eq!([(); 2].map(|()| waits.next_wait()), [ms(250), ms(500)]);
        let mut waits = RetryWaits::every(ms(100));
        assert_eq!([(); 3].map(|()| waits.next_wait()), [ms(100); 3]);
    }

    #[tokio::test]
    async fn shutdown_ends_a_wait() {
        let (mut waits, shutdown) = (RetryWaits::every(Duration::from_secs(3600)), CancellationToken::new());
        let both = async {
            let canceling = async { shutdown.cancel() };
            tokio::join!(waits.wait_unless_shutdown(&shutdown), canceling).0
        };
        let waited = timeout(Duration::from_secs(10), both).await;
        assert_eq!(waited, Ok(None));
        let mut waits = RetryWaits::every(Duration::ZERO);
        assert_eq!(waits.wait_unless_shutdown(&CancellationToken::new()).await, Some(()));
    }
}
