//! Takes from a queue what can be done together.

use tokio::sync::mpsc::Receiver;
use tokio::task::yield_now;

/// Waits for the first, then takes all that waits, up to `most`. False when the queue has ended.
///
/// Before it takes the rest it lets run what is ready to run: requests that have arrived already get to join. With
/// nothing else to do that costs nothing, so a lone request goes on at once.
pub(crate) async fn gather<T>(queue: &mut Receiver<T>, group: &mut Vec<T>, most: usize) -> bool {
    if queue.recv_many(group, most).await == 0 {
        return false;
    }
    yield_now().await;
    take_waiting(queue, group, most);
    true
}

/// Takes what waits, until the group has `most`; waits for nothing.
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
    async fn what_is_ready_to_be_sent_joins_the_first_and_nothing_is_waited_for() {
        let (sender, mut queue) = channel(10);
        let second = sender.clone();
        sender.try_send(1).unwrap();
        // Has not run yet when the first is taken.
        tokio::spawn(async move { second.try_send(2) });
        let mut group = Vec::new();
        assert!(gather(&mut queue, &mut group, 10).await);
        assert_eq!(group, [1, 2]);
    }

    #[tokio::test]
    async fn a_group_has_its_bound_and_the_rest_is_the_next() {
        let (sender, mut queue) = channel(10);
        (0..5).for_each(|i| sender.try_send(i).unwrap());
        drop(sender);
        let mut group = Vec::new();
        for expected in [vec![0, 1], vec![2, 3], vec![4]] {
            assert!(gather(&mut queue, &mut group, 2).await);
            assert_eq!(std::mem::take(&mut group), expected);
        }
        assert!(!gather(&mut queue, &mut group, 2).await);
    }
}
