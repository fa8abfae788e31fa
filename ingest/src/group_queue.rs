//! Processes requests in groups: the requests that arrive while as many groups as may are under way form the next group.
//! Nothing waits for a timer: a lone request is processed at once.
//!
//! Each task processes one group at a time, and keeps its turn from group to group, so that as few connections as possible
//! are in use. It gives its turn to another task while a group takes longer than `overtake_after`, so that a group that
//! waits for a disk or a lock does not delay those behind it.

use common::{critical_task, health};
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio::task::yield_now;
use tokio::time::timeout;

pub(crate) trait GroupHandler<T>: Send + Sync + 'static {
    /// Processes a group, which is not empty.
    fn run(&self, group: Vec<T>) -> impl Future<Output = ()> + Send;
}

/// The bounds of a group queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupQueueSettings {
    /// The most groups under way at once.
    pub(crate) concurrency: usize,
    /// The most of them that have not been under way for long.
    pub(crate) turns: usize,
    /// The most requests of a group.
    pub(crate) max_group: usize,
    /// How long a group may take before its turn ends.
    pub(crate) overtake_after: Duration,
    /// The most requests that may wait.
    pub(crate) queue: usize,
}

/// The queue of requests. Its tasks end when it is dropped.
#[derive(Debug)]
pub(crate) struct GroupQueue<T> {
    queue: mpsc::Sender<T>,
}

impl<T: Send + 'static> GroupQueue<T> {
    /// Starts the tasks that process groups.
    pub(crate) fn start(name: &'static str, settings: GroupQueueSettings, work: impl GroupHandler<T>) -> Self {
        let (queue, waiting) = mpsc::channel(settings.queue);
        let shared = Arc::new(Shared { turns: Semaphore::new(settings.turns), waiting: Mutex::new(waiting), work });
        for _ in 0..settings.concurrency {
            critical_task::spawn(name, run_groups(Arc::clone(&shared), settings));
        }
        Self { queue }
    }

    /// Queues a request. Returns it as the error when the queue is full.
    pub(crate) fn push(&self, request: T) -> Result<(), T> {
        self.queue.try_send(request).map_err(|(TrySendError::Full(request) | TrySendError::Closed(request))| request)
    }
}

/// What the tasks share.
struct Shared<T, W> {
    turns: Semaphore,
    waiting: Mutex<mpsc::Receiver<T>>,
    work: W,
}

async fn run_groups<T: Send>(shared: Arc<Shared<T, impl GroupHandler<T>>>, settings: GroupQueueSettings) {
    let Shared { turns, waiting, work } = &*shared;
    let mut group = Vec::new();
    let mut turn = turns.acquire().await;
    while receive_group(&mut *waiting.lock().await, &mut group, settings.max_group).await {
        let mut under_way = pin!(health::watch(work.run(mem::take(&mut group))));
        if timeout(settings.overtake_after, &mut under_way).await.is_err() {
            drop(turn);
            under_way.await;
            turn = turns.acquire().await;
        }
    }
}

/// Waits for the first request, then takes all that wait, up to `most`. False when the queue has ended.
///
/// Yields once before taking the rest, so that requests that have arrived already can join. When nothing else is ready to
/// run, this costs nothing, so a lone request continues at once.
async fn receive_group<T>(queue: &mut mpsc::Receiver<T>, group: &mut Vec<T>, most: usize) -> bool {
    if queue.recv_many(group, most).await == 0 {
        return false;
    }
    yield_now().await;
    while group.len() < most
        && let Ok(more) = queue.try_recv()
    {
        group.push(more);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    /// Notes each group and holds it until it is released.
    struct Held(mpsc::UnboundedSender<(Vec<u32>, oneshot::Sender<()>)>);

    impl GroupHandler<u32> for Held {
        async fn run(&self, group: Vec<u32>) {
            let (release, released) = oneshot::channel();
            self.0.send((group, release)).expect("the test lives");
            // A dropped sender releases the group as well.
            let _ = released.await;
        }
    }

    type Groups = mpsc::UnboundedReceiver<(Vec<u32>, oneshot::Sender<()>)>;

    fn start(concurrency: usize, turns: usize, overtake_after: Duration) -> (GroupQueue<u32>, Groups) {
        let (sender, groups) = mpsc::unbounded_channel();
        let settings = GroupQueueSettings { concurrency, turns, max_group: 3, overtake_after, queue: 5 };
        (GroupQueue::start("test", settings, Held(sender)), groups)
    }

    /// The next group. Only a failing test waits for so long.
    async fn next(groups: &mut Groups) -> (Vec<u32>, oneshot::Sender<()>) {
        timeout(Duration::from_secs(30), groups.recv()).await.expect("a group is begun").expect("the queue lives")
    }

    /// Lets the tasks run, which must not begin another group.
    async fn assert_none_begins(groups: &mut Groups) {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(groups.try_recv().is_err(), "a group was begun too early");
    }

    const LONG: Duration = Duration::from_secs(3_600);

    #[tokio::test]
    async fn what_arrives_while_a_group_is_under_way_is_the_next_group_up_to_its_bound() {
        let (queue, mut groups) = start(2, 1, LONG);
        queue.push(0).unwrap();
        let (first, release) = next(&mut groups).await;
        assert_eq!(first, [0]);
        (1..=5).for_each(|i| queue.push(i).unwrap());
        assert_eq!(queue.push(6), Err(6), "the queue is full");
        assert_none_begins(&mut groups).await;
        drop(release);
        let (second, release) = next(&mut groups).await;
        assert_eq!(second, [1, 2, 3]);
        drop(release);
        assert_eq!(next(&mut groups).await.0, [4, 5]);
    }

    #[tokio::test]
    async fn as_many_groups_as_have_a_turn_are_under_way_at_once() {
        let (queue, mut groups) = start(3, 2, LONG);
        queue.push(0).unwrap();
        let first = next(&mut groups).await;
        queue.push(1).unwrap();
        let second = next(&mut groups).await;
        assert_eq!((first.0, second.0), (vec![0], vec![1]));
        queue.push(2).unwrap();
        queue.push(3).unwrap();
        assert_none_begins(&mut groups).await;
        drop(second.1);
        assert_eq!(next(&mut groups).await.0, [2, 3]);
    }

    #[tokio::test]
    async fn a_group_that_takes_long_is_overtaken_by_the_next_while_a_task_is_free() {
        let (queue, mut groups) = start(2, 1, Duration::from_millis(2));
        let mut held = Vec::new();
        for i in 0..2 {
            queue.push(i).unwrap();
            let (group, release) = next(&mut groups).await;
            assert_eq!(group, [i]);
            held.push(release);
        }
        queue.push(2).unwrap();
        assert_none_begins(&mut groups).await;
        drop(held.pop());
        assert_eq!(next(&mut groups).await.0, [2]);
    }

    #[tokio::test]
    async fn ready_requests_join_the_first_without_waiting() {
        let (sender, mut queue) = mpsc::channel(10);
        let second = sender.clone();
        sender.try_send(1).unwrap();
        // Has not run yet when the first is taken.
        tokio::spawn(async move { second.try_send(2) });
        let mut group = Vec::new();
        assert!(receive_group(&mut queue, &mut group, 10).await);
        assert_eq!(group, [1, 2]);
    }
}
