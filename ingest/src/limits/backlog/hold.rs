//! How long a share is held: until the worker has replied, or, without a reply, for as long as the worker may need.

use super::Share;
use common::broker::Hold;
use std::time::Duration;
use tokio::time::{Instant, sleep};

impl Hold for Share {
    fn replied(&self) {
        self.backlog.state().replied(&self.admitted, Instant::now());
    }

    fn unreplied_hold_time(&self) -> Duration {
        self.backlog.state().unreplied_hold_time(&self.admitted, Instant::now())
    }

    fn release_after_longest_wait(self: Box<Self>) {
        let mut state = self.backlog.state();
        let wait = state.disconnected_hold(&self.admitted, Instant::now());
        state.end_wait(&self.admitted);
        drop(state);
        tokio::spawn(async move {
            sleep(wait).await;
            drop(self);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::Backlog;
    use common::broker::{Hold, Queue};
    use common::model::TenantId;
    use std::time::Duration;
    use tokio::task::yield_now;
    use tokio::time::{Instant, timeout};
    use uuid::Uuid;

    #[tokio::test]
    async fn a_share_without_a_reply_is_held_for_the_time_that_the_worker_needs() {
        let backlog = Backlog::new(Queue::Records, Duration::from_millis(600));
        let admit = || backlog.admit(TenantId(Uuid::nil()), 100);
        // The assumed initial rate is 1,000 units a second.
        let shares = [admit(), admit(), admit()].map(|share| Box::new(share.expect("a share")));
        let begun = Instant::now();
        for share in shares {
            share.release_after_longest_wait();
        }
        assert!(admit().is_err(), "the tenant has used up its share");
        let until_free = async {
            while backlog.state().units() > 0 {
                yield_now().await;
            }
        };
        timeout(Duration::from_secs(20), until_free).await.expect("the shares are released");
        assert!(begun.elapsed() >= Duration::from_millis(300), "{:?}", begun.elapsed());
        assert!(admit().is_ok());
    }
}
