//! Groups of requests that are worked off together, natural batching: while one group is under way, the requests that
//! arrive wait and are the next group. Nothing waits for a timer: a lone request is worked off at once.
//!
//! A lane works off one group at a time. One lane has the turn to take the next group; it keeps the turn from group to
//! group, so that as few connections as possible are in use, and passes it on when a group takes longer than the lanes'
//! patience: a group that waits for a disk or a lock must not hold up those behind it.

use crate::gather::gather;
use common::vital;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;

/// What is done with a group.
pub(crate) trait Work<T>: Send + Sync + 'static {
    /// Works off a group, which is not empty.
    fn run(&self, group: Vec<T>) -> impl Future<Output = ()> + Send;
}

/// How groups are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneSettings {
    /// Groups at once.
    pub lanes: usize,
    /// Most requests of a group.
    pub group: usize,
    /// How long a group may take before the next one is begun beside it.
    pub patience: Duration,
    /// Requests that may wait.
    pub queue: usize,
}

/// The queue before the lanes. They end when it is dropped.
#[derive(Debug)]
pub(crate) struct Lanes<T> {
    queue: mpsc::Sender<T>,
}

impl<T: Send + 'static> Lanes<T> {
    /// Starts the lanes.
    pub(crate) fn start(name: &'static str, settings: LaneSettings, work: impl Work<T>) -> Self {
        let (queue, waiting) = mpsc::channel(settings.queue);
        let (waiting, work) = (Arc::new(Mutex::new(waiting)), Arc::new(work));
        for _ in 0..settings.lanes {
            vital::spawn(name, run_lane(Arc::clone(&waiting), Arc::clone(&work), settings));
        }
        Self { queue }
    }

    /// Puts a request into the queue. Gives it back when the queue is full.
    pub(crate) fn push(&self, request: T) -> Result<(), T> {
        self.queue
            .try_send(request)
            .map_err(|(TrySendError::Full(request) | TrySendError::Closed(request))| request)
    }
}

async fn run_lane<T: Send>(
    waiting: Arc<Mutex<mpsc::Receiver<T>>>,
    work: Arc<impl Work<T>>,
    settings: LaneSettings,
) {
    let mut group = Vec::new();
    let mut turn = waiting.lock().await;
    while gather(&mut turn, &mut group, settings.group).await {
        let mut under_way = pin!(work.run(mem::take(&mut group)));
        if timeout(settings.patience, &mut under_way).await.is_err() {
            drop(turn);
            under_way.await;
            turn = waiting.lock().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    /// Notes each group and holds it until it is released.
    struct Held(mpsc::UnboundedSender<(Vec<u32>, oneshot::Sender<()>)>);

    impl Work<u32> for Held {
        async fn run(&self, group: Vec<u32>) {
            let (release, released) = oneshot::channel();
            self.0.send((group, release)).expect("the test lives");
            // An end without a word is a release as well.
            let _ = released.await;
        }
    }

    type Groups = mpsc::UnboundedReceiver<(Vec<u32>, oneshot::Sender<()>)>;

    fn start(lanes: usize, patience: Duration) -> (Lanes<u32>, Groups) {
        let (sender, groups) = mpsc::unbounded_channel();
        (Lanes::start("test", LaneSettings { lanes, group: 3, patience, queue: 5 }, Held(sender)), groups)
    }

    const LONG: Duration = Duration::from_secs(3_600);

    #[tokio::test]
    async fn what_arrives_while_a_group_is_under_way_is_the_next_group_up_to_its_bound() {
        let (lanes, mut groups) = start(2, LONG);
        lanes.push(0).unwrap();
        let (first, release) = groups.recv().await.unwrap();
        assert_eq!(first, [0]);
        (1..=5).for_each(|i| lanes.push(i).unwrap());
        assert_eq!(lanes.push(6), Err(6), "the queue is full");
        drop(release);
        let (second, release) = groups.recv().await.unwrap();
        assert_eq!(second, [1, 2, 3]);
        drop(release);
        assert_eq!(groups.recv().await.unwrap().0, [4, 5]);
    }

    #[tokio::test]
    async fn a_group_that_takes_long_is_passed_by_the_next_while_there_are_lanes() {
        let (lanes, mut groups) = start(2, Duration::from_millis(2));
        let mut held = Vec::new();
        for i in 0..2 {
            lanes.push(i).unwrap();
            let (group, release) = groups.recv().await.unwrap();
            assert_eq!(group, [i]);
            held.push(release);
        }
        lanes.push(2).unwrap();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(groups.try_recv().is_err(), "both lanes are taken");
        drop(held.pop());
        assert_eq!(groups.recv().await.unwrap().0, [2]);
    }
}
