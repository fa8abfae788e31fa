//! Receives a group of requests from a queue.

use tokio::sync::mpsc::Receiver;
use tokio::task::yield_now;

/// Waits for the first, then takes all that waits, up to `most`. False when the queue has ended.
///
/// Yields once before taking the rest, so that requests that have arrived already can join. When nothing else is ready to
/// run, this costs nothing, so a lone request continues at once.
pub(crate) async fn receive_group<T>(queue: &mut Receiver<T>, group: &mut Vec<T>, most: usize) -> bool {
    if queue.recv_many(group, most).await == 0 {
        return false;
    }
    yield_now().await;
    take_waiting(queue, group, most);
    true
}

/// Takes waiting requests without waiting for more, until the group has `most`.
fn take_waiting<T>(queue: &mut Receiver<T>, group: &mut Vec<T>, most: usize) {
    while group.len() < most
        && let Ok(more) = queue.try_recv()
    {
        group.push(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::channel;

    #[tokio::test]
    async fn ready_requests_join_the_first_without_waiting() {
        let (sender, mut queue) = channel(10);
        let second = sender.clone();
        sender.try_send(1).unwrap();
        // Has not run yet when the first is taken.
        tokio::spawn(async move { second.try_send(2) });
        let mut group = Vec::new();
        assert!(receive_group(&mut queue, &mut group, 10).await);
        assert_eq!(group, [1, 2]);
    }
}
