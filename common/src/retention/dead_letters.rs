//! Messages of dead-letter queues that have expired.

use super::rule::lock;
use crate::broker::{
    DeadLetter, DeadLetterAction, OperatorConnection, OperatorConnectionError, Queue, Window,
};
use crate::message::DeliveryMeta;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use std::collections::HashSet;
use thiserror::Error;
use tokio_postgres::Transaction;
use uuid::Uuid;

crate::statements! {
    const OPEN = "
    -- deliveries.open_dead_letters
    SELECT d.delivery_id FROM unnest($1::uuid[], $2::uuid[]) AS named (tenant_id, delivery_id)
    CROSS JOIN LATERAL (
        SELECT delivery_id, state FROM deliveries d
        WHERE d.tenant_id = named.tenant_id AND d.delivery_id = named.delivery_id LIMIT 1
    ) AS d
    WHERE d.state IN ('pending', 'dead')";
}

/// Maximum number of messages of one queue that one scan reads. They are invisible to others meanwhile.
pub const DEAD_LETTERS_OF_SCAN: u32 = 5_000;

/// What a scan of all dead-letter queues has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterReport {
    /// Messages that have expired.
    pub expired: u64,
    /// Whether the scan of a queue ended at [`DEAD_LETTERS_OF_SCAN`] before it found a message that has not expired. The messages
    /// behind may have expired as well.
    pub has_unread: bool,
    /// Whether another scan reads messages that this one did not reach: those before them are removed.
    pub should_repeat: bool,
}

impl DeadLetterReport {
    /// Adds a queue of `ready` messages.
    fn add(&mut self, queue: &ScannedQueue, ready: u32) {
        let has_unread = !queue.has_recent && ready > DEAD_LETTERS_OF_SCAN;
        self.expired += queue.expired;
        self.has_unread |= has_unread;
        self.should_repeat |= has_unread && queue.expired > 0;
    }
}

/// Why expired messages could not be removed or counted.
#[derive(Debug, Error)]
pub enum RetentionError {
    /// Postgres refused or did not respond; nothing of the current batch was removed.
    #[error(transparent)]
    Database(#[from] tokio_postgres::Error),
    /// RabbitMQ refused or did not respond; messages that were not acknowledged stay.
    #[error(transparent)]
    Broker(#[from] OperatorConnectionError),
}

/// What a scan does with messages that have expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Remove,
    Count,
}

/// The part of every message's metadata that says when it was published.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Published {
    published_at: DateTime<Utc>,
}

/// Removes the dead letters that are older than `cutoff`, of a bounded number of the oldest ones of each queue. A message of a webhook
/// stays as long as its delivery is dead-lettered or pending (D31), and one without a time stays. `None`, without an effect, while
/// another copy holds the lock.
///
/// Messages behind the oldest ones are reached by a repeated scan, unless messages that stay fill it. Then those behind stay for longer
/// than the period, until an operator replays or drops the ones before them. Every scan reports `has_unread` then, so that the worker
/// counts as behind and the alert `ConnectRetentionBehind` fires.
pub async fn expire_dead_letters(
    tx: &Transaction<'_>,
    broker: &OperatorConnection,
    cutoff: DateTime<Utc>,
) -> Result<Option<DeadLetterReport>, RetentionError> {
    // The transaction is idle during the scan, and holds nothing else.
    if !lock(tx).await? {
        return Ok(None);
    }
    scan_all(tx, broker, cutoff, Mode::Remove).await.map(Some)
}

/// Counts the dead letters that one call of [`expire_dead_letters`] would remove.
pub async fn count_dead_letters(
    tx: &Transaction<'_>,
    broker: &OperatorConnection,
    cutoff: DateTime<Utc>,
) -> Result<DeadLetterReport, RetentionError> {
    scan_all(tx, broker, cutoff, Mode::Count).await
}

async fn scan_all(
    tx: &Transaction<'_>,
    broker: &OperatorConnection,
    cutoff: DateTime<Utc>,
    mode: Mode,
) -> Result<DeadLetterReport, RetentionError> {
    let mut all = DeadLetterReport::default();
    for queue in Queue::ALL {
        let ready = broker.depth(&broker.dead_queue_name(queue)).await?.map_or(0, |depth| depth.ready);
        if ready > 0 {
            all.add(&scan_queue(tx, broker, queue, cutoff, mode).await?, ready);
        }
    }
    Ok(all)
}

/// What the scan of one queue has found.
struct ScannedQueue {
    expired: u64,
    /// Whether it ended at a message that has not expired.
    has_recent: bool,
}

/// Scans the oldest messages of a queue, and ends at the first window with one that has not expired.
async fn scan_queue(
    tx: &Transaction<'_>,
    broker: &OperatorConnection,
    queue: Queue,
    cutoff: DateTime<Utc>,
    mode: Mode,
) -> Result<ScannedQueue, RetentionError> {
    let mut scan = broker.scan_dead_letters(queue, Some(DEAD_LETTERS_OF_SCAN)).await?;
    let (mut expired, mut has_recent) = (0, false);
    let name = broker.queue_name(queue);
    while let Some(window) = scan.next_window().await? {
        let open = open_deliveries(tx, queue, &window).await?;
        let is_old = |letter: &DeadLetter| dead_since(letter, &name).is_some_and(|since| since < cutoff);
        has_recent = window.letters().iter().any(|letter| dead_since(letter, &name) >= Some(cutoff));
        let action = |letter: &DeadLetter| {
            let is_open = delivery_of(letter, queue).is_some_and(|meta| open.contains(&meta.delivery_id));
            if !is_old(letter) || is_open {
                return DeadLetterAction::Keep;
            }
            expired += 1;
            if mode == Mode::Remove { DeadLetterAction::Remove } else { DeadLetterAction::Keep }
        };
        window.settle(action).await?;
        if has_recent {
            break;
        }
    }
    scan.finish().await?;
    Ok(ScannedQueue { expired, has_recent })
}

/// The deliveries of a window's messages that are dead-lettered or pending.
async fn open_deliveries(
    tx: &Transaction<'_>,
    queue: Queue,
    window: &Window<'_, '_>,
) -> Result<HashSet<Uuid>, RetentionError> {
    let named = window.letters().iter().filter_map(|letter| delivery_of(letter, queue));
    let (tenants, deliveries): (Vec<Uuid>, Vec<Uuid>) =
        named.map(|meta| (meta.tenant_id.0, meta.delivery_id)).unzip();
    if deliveries.is_empty() {
        return Ok(HashSet::new());
    }
    let open = tx.query(OPEN.as_str(), &[&tenants, &deliveries]).await?;
    Ok(open.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

/// The delivery that a dead letter of a webhook is about.
fn delivery_of(letter: &DeadLetter, queue: Queue) -> Option<DeliveryMeta> {
    let meta = letter.meta.as_deref().filter(|_| queue == Queue::Webhooks)?;
    serde_json::from_str(meta).ok()
}

/// When the queue of that full name dead-lettered a message; when it was published, if it was published to the
/// dead-letter queue directly.
fn dead_since(letter: &DeadLetter, name: &str) -> Option<DateTime<Utc>> {
    let published = || {
        let meta: Published = serde_json::from_str(letter.meta.as_deref()?).ok()?;
        Some(meta.published_at)
    };
    letter.cause_in(name).and_then(|cause| cause.at).or_else(published)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::DeadLetterCause;
    use chrono::TimeDelta;

    #[test]
    fn a_scan_is_repeated_for_a_queue_that_it_has_not_read_to_the_end_and_removed_some_of() {
        let (all, more) = (DEAD_LETTERS_OF_SCAN, DEAD_LETTERS_OF_SCAN + 1);
        let queue = |expired, has_recent, ready| (ScannedQueue { expired, has_recent }, ready);
        let cases = [
            (vec![queue(0, false, all), queue(9, false, all), queue(9, true, more)], (18, false, false)),
            (vec![queue(0, false, more), queue(9, false, all)], (9, true, false)),
            (vec![queue(9, false, more), queue(0, true, more)], (9, true, true)),
        ];
        for (queues, (expired, has_unread, should_repeat)) in cases {
            let mut report = DeadLetterReport::default();
            queues.iter().for_each(|(queue, ready)| report.add(queue, *ready));
            assert_eq!(report, DeadLetterReport { expired, has_unread, should_repeat });
        }
    }

    #[test]
    fn a_dead_letter_is_as_old_as_its_queue_says_or_its_metadata() {
        let at = DateTime::UNIX_EPOCH + TimeDelta::days(20_000);
        let cause = |queue: &str| DeadLetterCause {
            queue: queue.to_owned(),
            reason: "rejected".to_owned(),
            at: Some(at),
            count: 1,
        };
        let letter = |causes, meta: Option<&str>| DeadLetter {
            causes,
            message_id: None,
            meta: meta.map(str::to_owned),
            bytes: 0,
        };
        let published = r#"{"publishedAt":"2026-05-01T10:00:00Z","other":1}"#;
        assert_eq!(dead_since(&letter(vec![cause("p.events")], Some(published)), "p.events"), Some(at));
        let known = dead_since(&letter(vec![cause("p.webhooks.retry.1")], Some(published)), "p.webhooks");
        assert_eq!(known.map(|at| at.to_rfc3339()).as_deref(), Some("2026-05-01T10:00:00+00:00"));
        for unknown in [None, Some("{}"), Some("no JSON")] {
            assert_eq!(dead_since(&letter(Vec::new(), unknown), "p.events"), None);
        }
    }
}
