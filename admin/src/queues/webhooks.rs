//! Requeues dead letters of webhooks. Such a message must not be requeued by itself: the delivery's row in the database is
//! authoritative, and a replay starts there (D26).

use super::RequeueReport;
use crate::audit::{Actor, AuditAction, record_before};
use crate::deliveries::{delivery_of, replay_dead_lettered};
use crate::store::delivery_changes;
use crate::{AdminError, Observer, ProgressStep};
use common::broker::{DeadLetter, DeadLetterAction, OperatorConnection, Queue};
use common::message::DeliveryMeta;
use common::model::TenantId;
use std::collections::{BTreeMap, HashSet};
use tokio_postgres::Client;
use uuid::Uuid;

/// Replays the deliveries of at most `limit` dead letters, of all tenants. Removes the dead letters of replayed deliveries,
/// and of those that were delivered or dropped meanwhile. Keeps dead letters that cannot be parsed, and those of pending
/// or unknown deliveries.
pub async fn requeue_webhooks(
    client: &mut Client,
    actor: &Actor,
    broker: &OperatorConnection,
    limit: Option<u32>,
    observer: &mut impl Observer,
) -> Result<RequeueReport, AdminError> {
    let mut scan = broker.scan_dead_letters(Queue::Webhooks, limit).await?;
    record_before(client, actor, AuditAction::RequeueDeadLetters, Queue::Webhooks.as_str(), None).await?;
    observer.begin(ProgressStep::CheckDeadLetters, scan.remaining().into());
    // A delivery may have several dead letters.
    let (mut replayed, mut settled) = (HashSet::new(), HashSet::new());
    while let Some(window) = scan.next_window().await? {
        replay_window(client, window.letters(), &mut replayed, &mut settled).await?;
        let is_done = |id| replayed.contains(&id) || settled.contains(&id);
        let action = |letter: &DeadLetter| match delivery_of(letter) {
            Some(meta) if is_done(meta.delivery_id) => DeadLetterAction::Remove,
            Some(_) | None => DeadLetterAction::Keep,
        };
        window.settle(action).await?;
        observer.reached(scan.counts().total().into());
    }
    let counts = scan.finish().await?;
    observer.end(counts.total().into());
    let requeued = u32::try_from(replayed.len()).unwrap_or(u32::MAX);
    Ok(RequeueReport { requeued, kept: counts.kept, removed: counts.removed.saturating_sub(requeued) })
}

/// Replays the deliveries of `letters`. Adds the replayed ones to `replayed`, and those that were delivered or dropped
/// before to `settled`.
async fn replay_window(
    client: &mut Client,
    letters: &[DeadLetter],
    replayed: &mut HashSet<Uuid>,
    settled: &mut HashSet<Uuid>,
) -> Result<(), AdminError> {
    let mut by_tenant: BTreeMap<TenantId, Vec<DeliveryMeta>> = BTreeMap::new();
    for meta in letters.iter().filter_map(delivery_of) {
        by_tenant.entry(meta.tenant_id).or_default().push(meta);
    }
    for (tenant, metas) in by_tenant {
        let ids: Vec<Uuid> = metas.iter().map(|meta| meta.delivery_id).collect();
        settled.extend(delivery_changes::delivered_or_dropped(client, tenant, &ids).await?);
        replayed.extend(replay_dead_lettered(client, tenant, &metas).await?);
    }
    Ok(())
}
