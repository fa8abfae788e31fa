//! Batches that are sent until the test has seen enough, and the check that every event was applied exactly once.

use crate::burst::{Burst, EVENTS, SentBatch};
use futures_util::future::join_all;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tests::{HttpClient, World};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

const SENDERS: usize = 4;
/// Between two batches of a sender, so that a fault is not too short for the load.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum time that a test may wait for a success.
const OUTAGE: Duration = Duration::from_secs(180);

/// What the test can see of the load.
pub(crate) struct Load {
    is_over: watch::Sender<bool>,
    /// The latest begin of a batch that was confirmed.
    success: watch::Sender<Option<Instant>>,
    confirmed: Mutex<Burst>,
}

/// Sends batches to the first ingest of `world` while `faults` run. Returns the load.
pub(crate) async fn send(world: &World, faults: impl AsyncFnOnce(&Load)) -> Load {
    let (is_over, success) = (watch::Sender::new(false), watch::Sender::new(None));
    let load = Load { is_over, success, confirmed: Mutex::default() };
    let senders = join_all((0..SENDERS).map(|sender| load.send_batches(world, sender)));
    let faults = async {
        faults(&load).await;
        load.is_over.send_replace(true);
    };
    futures_util::join!(senders, faults);
    load
}

impl Load {
    /// Waits until a batch is confirmed that begins now or later; returns how long that took.
    pub(crate) async fn until_next_success(&self) -> Duration {
        let begun = Instant::now();
        let mut success = self.success.subscribe();
        let next = success.wait_for(|latest| latest.is_some_and(|latest| latest >= begun));
        timeout(OUTAGE, next).await.expect("a batch is confirmed in time").expect("the load runs");
        begun.elapsed()
    }

    async fn send_batches(&self, world: &World, sender: usize) {
        let ingests = [HttpClient::new(world.http().address())];
        for number in (sender..).step_by(SENDERS) {
            if *self.is_over.borrow() {
                return;
            }
            let sent = SentBatch::until_accepted(&world.key, &ingests, number).await;
            self.success.send_replace(Some(sent.begun));
            self.confirmed.lock().expect("no sender panics").batches.push(sent);
            sleep(PAUSE).await;
        }
    }

    /// Checks that every event was applied exactly once.
    pub(crate) async fn assert_applied_once(&self, world: &World) {
        let batches = self.confirmed.lock().expect("no sender panics").batches.clone();
        Burst { batches }.assert_applied_once(world).await;
    }

    /// The number of events that were sent.
    pub(crate) fn events(&self) -> usize {
        EVENTS * self.confirmed.lock().expect("no sender panics").batches.len()
    }
}
