//! Requeues dead letters of webhooks. Such a message is a notice: the delivery that it names is replayed (D26), and the message
//! removed.

use super::RequeueReport;
use crate::audit::{Actor, AuditAction, end_recorded, record_before};
use crate::store::delivery_changes;
use crate::{Observer, ProgressStep, Result, Steps, transact};
use common::broker::{DeadLetter, DeadLetterAction, OperatorConnection, Queue};
use common::message::DeliveryMeta;
use common::model::{DeliveryState, TenantId};
use std::collections::BTreeMap;
use tokio_postgres::Transaction;
use uuid::Uuid;

/// Replays the dead-lettered deliveries that at most `limit` notices name, of all tenants, and removes the notices. Those of
/// deliveries that were replayed, delivered or dropped since are removed as well; those that cannot be parsed stay.
pub async fn requeue_webhooks(
    database: &mut impl Steps,
    actor: &Actor,
    broker: &OperatorConnection,
    limit: Option<u32>,
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
