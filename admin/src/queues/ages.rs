//! For how long messages have waited.
//!
//! A message cannot be looked at without taking it from its queue, which would cost its place. But queues are processed in
//! order: what waits was published after the newest message that a worker has handled, and after a program last saw the queue
//! empty. The later of these times is accurate to a few seconds while messages are handled, and does not change while none is.

use super::QueueView;
use crate::overview::QueueState;
use crate::{AdminError, store};
use chrono::{DateTime, Utc};
use common::broker::Queue;
use common::clock;
use tokio_postgres::Client;

/// Since when, at the longest, the oldest message of a queue has waited; `None` if none waits, or that is unknown. `due` is the
/// earliest due time of the deliveries in the queue of webhooks.
pub(crate) fn waiting_since(
    state: &QueueState,
    due: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> Option<DateTime<Utc>> {
    if state.ready == 0 {
        return None;
    }
    match state.queue {
        Queue::Webhooks => due.filter(|due| *due < now),
        Queue::Events | Queue::Records | Queue::Crm => state.published_after.map(|at| at.min(now)),
    }
}

/// Adds to queues since when, at the longest, their oldest message has waited.
pub async fn add_ages(client: &Client, queues: &mut [QueueView]) -> Result<(), AdminError> {
    let (states, due) =
        (store::activity::queue_states(client).await?, store::activity::oldest_due(client).await?);
    let now = clock::now();
    for queue in queues {
        let state = states.iter().find(|state| state.queue.as_str() == queue.name);
        // How many wait now is known better by the broker than by the programs some seconds ago.
        let current =
            state.zip(queue.depth).map(|(state, depth)| QueueState { ready: depth.into(), ..*state });
        queue.oldest = current.and_then(|state| waiting_since(&state, due, now)).map(clock::to_text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;

    #[test]
    fn the_oldest_message_is_dated_by_the_last_one_before_it_or_by_when_it_is_due() {
        let now: DateTime<Utc> = "2026-05-01T10:30:00Z".parse().unwrap();
        let (before, later) = (now - TimeDelta::minutes(3), now + TimeDelta::minutes(3));
        let since = |queue, ready, published_after, due| {
            let state = QueueState { queue, observed_at: now, ready, consumers: 1, dead: 0, published_after };
            waiting_since(&state, due, now)
        };
        assert_eq!(since(Queue::Events, 1, Some(before), None), Some(before));
        assert_eq!(since(Queue::Events, 1, Some(later), None), Some(now), "clocks differ");
        assert_eq!(since(Queue::Events, 0, Some(before), None), None);
        assert_eq!(since(Queue::Records, 1, None, Some(before)), None, "it is unknown");
        assert_eq!(since(Queue::Webhooks, 1, Some(now), Some(before)), Some(before));
        assert_eq!(since(Queue::Webhooks, 1, Some(before), Some(later)), None, "none is due");
    }
}
