//! The queues and their dead letters. Bodies are never returned: they may contain personal data.

mod dead_letter;

pub use dead_letter::{DeadLetterView, LetterMetadata, MacStatus};

use crate::audit::{Actor, AuditAction, end_recorded, record_before};
use crate::store::activity::QueueState;
use crate::store::delivery_changes;
use crate::{AdminError, Observer, ProgressStep, Result, Steps, store, transact};
use chrono::{DateTime, Utc};
use common::broker::{
    DeadLetter, DeadLetterAction, DeadLetterScan, MessageKeys, OperatorConnection, Queue, QueueStatus,
};
use common::clock;
use common::message::DeliveryMeta;
use common::model::{DeliveryState, TenantId};
use common::sealed::MasterKeys;
use serde::Serialize;
use std::collections::BTreeMap;
use tokio_postgres::{Client, Transaction};
use uuid::Uuid;

/// A queue and its length.
#[derive(Clone, Debug, Serialize)]
pub struct QueueView {
    /// Its name without prefix.
    pub name: String,
    /// Messages that wait; null if the queue is not declared. [`add_ages`] adds the advisor actions that wait in the database.
    pub depth: Option<u32>,
    /// Consumers; null if the queue is not declared.
    pub consumers: Option<u32>,
    /// Messages in its dead-letter queue; null if it has none.
    pub dead: Option<u32>,
    /// Since when the oldest waiting message has waited, at the longest; null if none waits, or it is unknown. [`add_ages`]
    /// sets it.
    pub oldest: Option<String>,
}

impl From<QueueStatus> for QueueView {
    fn from(seen: QueueStatus) -> Self {
        let QueueStatus { name, depth, dead } = seen;
        Self {
            name,
            depth: depth.map(|depth| depth.ready),
            consumers: depth.map(|depth| depth.consumers),
            dead,
            oldest: None,
        }
    }
}

/// The result of requeueing dead letters.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct RequeueReport {
    /// Returned to their queue, or replayed as deliveries.
    pub requeued: u32,
    /// Still in the dead-letter queue.
    pub kept: u32,
    /// Removed, because their delivery was replayed, delivered or dropped before.
    pub removed: u32,
}

/// The result of dropping dead letters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DropReport {
    /// Number of dropped dead letters.
    pub dropped: u32,
}

/// The queues and their dead-letter queues.
pub async fn list(broker: &OperatorConnection) -> Result<Vec<QueueView>> {
    Ok(broker.queues().await?.into_iter().map(QueueView::from).collect())
}

/// The oldest `limit` dead letters of a queue, oldest first. With the master keys, their MACs are verified.
pub async fn dead_letters(
    broker: &OperatorConnection, queue: Queue, limit: u32, master_keys: Option<&MasterKeys>,
) -> Result<Vec<DeadLetterView>> {
    let keys = master_keys.map(|masters| MessageKeys::new(masters, broker.prefix()));
    let name = broker.queue_name(queue);
    let mut scan = broker.scan_dead_letters(queue, Some(limit)).await?;
    let mut letters = Vec::new();
    while let Some(window) = scan.next_window().await? {
        let macs: Vec<Option<MacStatus>> = match &keys {
            Some(keys) => window.verify_macs(keys).into_iter().map(|mac| Some(mac.into())).collect(),
            None => vec![None; window.letters().len()],
        };
        let read = window.letters().iter().zip(macs);
        letters.extend(read.map(|(letter, mac)| DeadLetterView::of(letter, mac, queue, &name)));
        window.settle(|_| DeadLetterAction::Keep).await?;
    }
    scan.finish().await?;
    Ok(letters)
}

/// Returns the oldest `limit` dead letters of a queue to the end of the queue, or all that it holds now. Of webhooks, the deliveries
/// are replayed that the dead letters name.
pub async fn requeue(
    database: &mut impl Steps, actor: &Actor, broker: &OperatorConnection, queue: Queue, limit: Option<u32>,
    observer: &mut impl Observer,
) -> Result<RequeueReport> {
    if queue == Queue::Webhooks {
        return requeue_webhooks(database, actor, broker, limit, observer).await;
    }
    let mut scan = broker.scan_dead_letters(queue, limit).await?;
    let (action, target) = (AuditAction::RequeueDeadLetters, queue.as_str());
    database.step(async |client| record_before(client, actor, action, target, None).await).await?;
    observer.begin(ProgressStep::RequeueDeadLetters, scan.remaining().into());
    let requeued = async {
        while let Some(window) = scan.next_window().await? {
            let settled = window.settle(|_| DeadLetterAction::Requeue).await;
            let requeued = scan.counts().requeued;
            observer.reached(requeued.into());
            settled.map_err(|source| AdminError::RequeueStopped { requeued, source })?;
        }
        let done = scan.finish().await?;
        observer.end(done.requeued.into());
        Ok(RequeueReport { requeued: done.requeued, kept: done.kept, removed: done.removed })
    };
    let requeued = requeued.await;
    end_recorded(database, actor, requeued).await
}

/// Dead letters that are about to be dropped, so that a user interface can ask for a confirmation.
pub struct DeadLetterDrop<'b> {
    scan: DeadLetterScan<'b>,
    queue: Queue,
}

impl std::fmt::Debug for DeadLetterDrop<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeadLetterDrop").field("count", &self.count()).finish()
    }
}

impl<'b> DeadLetterDrop<'b> {
    /// Selects the dead letters that the queue holds now; [`run`](Self::run) drops them.
    pub async fn prepare(broker: &'b OperatorConnection, queue: Queue) -> Result<Self> {
        Ok(Self { scan: broker.scan_dead_letters(queue, None).await?, queue })
    }

    /// Number of selected dead letters.
    pub const fn count(&self) -> u32 {
        self.scan.remaining()
    }

    /// Drops them permanently.
    pub async fn run(
        mut self, database: &mut impl Steps, actor: &Actor, observer: &mut impl Observer,
    ) -> Result<DropReport> {
        let (action, target) = (AuditAction::DropDeadLetters, self.queue.as_str());
        database.step(async |client| record_before(client, actor, action, target, None).await).await?;
        observer.begin(ProgressStep::DropDeadLetters, self.count().into());
        let dropped = async {
            while let Some(window) = self.scan.next_window().await? {
                window.settle(|_| DeadLetterAction::Remove).await?;
                observer.reached(self.scan.counts().removed.into());
            }
            let done = self.scan.finish().await?;
            observer.end(done.removed.into());
            Ok(DropReport { dropped: done.removed })
        };
        let dropped = dropped.await;
        end_recorded(database, actor, dropped).await
    }
}

/// Since when, at the longest, the oldest message of a queue has waited; `None` if none waits, or that is unknown.
pub(crate) fn waiting_since(state: &QueueState, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    state.published_after.filter(|_| state.ready > 0).map(|at| at.min(now))
}

/// Adds to queues since when, at the longest, their oldest message has waited, and what waits in the database.
pub async fn add_ages(client: &Client, queues: &mut [QueueView]) -> Result<()> {
    let (states, now) = (store::activity::queue_states(client).await?, clock::database_now());
    let (actions, _) = store::activity::waiting_actions(client).await?;
    for queue in queues {
        if queue.name == Queue::Crm.as_str() {
            queue.depth = queue.depth.map(|depth| depth.saturating_add(actions));
        }
        let state = states.iter().find(|state| state.queue.as_str() == queue.name);
        // How many wait now is known better by the broker than by the programs some seconds ago.
        let current = state.zip(queue.depth).map(|(state, depth)| QueueState { ready: depth.into(), ..*state });
        queue.oldest = current.and_then(|state| waiting_since(&state, now)).map(clock::to_text);
    }
    Ok(())
}

/// Replays the dead-lettered deliveries that at most `limit` notices name, of all tenants, and removes the notices. Those of
/// deliveries that were replayed, delivered or dropped since are removed as well; those that cannot be parsed stay.
async fn requeue_webhooks(
    database: &mut impl Steps, actor: &Actor, broker: &OperatorConnection, limit: Option<u32>,
    observer: &mut impl Observer,
) -> Result<RequeueReport> {
    let mut scan = broker.scan_dead_letters(Queue::Webhooks, limit).await?;
    let (action, target) = (AuditAction::RequeueDeadLetters, Queue::Webhooks.as_str());
    database.step(async |client| record_before(client, actor, action, target, None).await).await?;
    let requeued = async {
        observer.begin(ProgressStep::CheckDeadLetters, scan.remaining().into());
        let mut requeued = 0;
        while let Some(window) = scan.next_window().await? {
            let mut named: BTreeMap<TenantId, Vec<Uuid>> = BTreeMap::new();
            for meta in window.letters().iter().filter_map(delivery_of) {
                named.entry(meta.tenant_id).or_default().push(meta.delivery_id);
            }
            for (tenant, mut ids) in named {
                ids.sort_unstable();
                ids.dedup();
                let replay = async |tx: &Transaction<'_>| {
                    delivery_changes::replay(tx, tenant, &ids, &[DeliveryState::DeadLettered]).await
                };
                let replayed = database.step(async |client| transact(client, replay).await).await?;
                requeued += u32::try_from(replayed.len()).unwrap_or(u32::MAX);
            }
            let is_notice = |letter: &DeadLetter| delivery_of(letter).is_some();
            let action = |letter: &DeadLetter| {
                if is_notice(letter) { DeadLetterAction::Remove } else { DeadLetterAction::Keep }
            };
            window.settle(action).await?;
            observer.reached(scan.counts().total().into());
        }
        let counts = scan.finish().await?;
        observer.end(counts.total().into());
        Ok(RequeueReport { requeued, kept: counts.kept, removed: counts.removed.saturating_sub(requeued) })
    };
    let requeued = requeued.await;
    end_recorded(database, actor, requeued).await
}

/// The delivery of a notice; `None` if its metadata cannot be parsed.
fn delivery_of(letter: &DeadLetter) -> Option<DeliveryMeta> {
    serde_json::from_str(letter.meta.as_deref()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;

    #[test]
    fn the_oldest_message_is_dated_by_the_last_one_before_it() {
        let now: DateTime<Utc> = "2026-05-01T10:30:00Z".parse().unwrap();
        let (before, later) = (now - TimeDelta::minutes(3), now + TimeDelta::minutes(3));
        let since = |ready, published_after| {
            let queue = Queue::Events;
            let state = QueueState { queue, observed_at: now, ready, consumers: 1, dead: 0, published_after };
            waiting_since(&state, now)
        };
        assert_eq!(since(1, Some(before)), Some(before));
        assert_eq!(since(1, Some(later)), Some(now), "clocks differ");
        assert_eq!(since(0, Some(before)), None);
        assert_eq!(since(1, None), None, "it is unknown");
    }
}
