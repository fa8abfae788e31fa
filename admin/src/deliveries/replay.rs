//! Replays deliveries: they are sent again with the same ids (D26). Many are replayed by a job, see `replay_job`.
//!
//! The row in the database is authoritative: a replay parks the delivery there, and the dispatcher picks it up. The dead
//! letter in the broker is removed after the commit; a crash in between leaves one that is no longer needed.

use super::parse_id;
use crate::audit::{Actor, AuditAction, record};
use crate::store::delivery_changes;
use crate::transact;
use crate::{AdminError, Observer, ProgressStep, store};
use common::broker::{DeadLetter, DeadLetterAction, OperatorConnection, OperatorConnectionError, Queue};
use common::clock;
use common::message::DeliveryMeta;
use common::model::{DeliveryState, TenantId};
use tokio_postgres::{Client, Transaction};
use uuid::Uuid;

const DEAD_LETTERED: &[DeliveryState] = &[DeliveryState::DeadLettered];
const REPLAYABLE: &[DeliveryState] = &[DeliveryState::DeadLettered, DeliveryState::Delivered];

/// Replays one delivery; the error says why it cannot be replayed. Takes a connection to the broker: without a broker nothing is
/// replayed, as the dispatcher could not deliver it.
pub async fn replay_one(
    client: &mut Client,
    actor: &Actor,
    broker: &OperatorConnection,
    id: &str,
    observer: &mut impl Observer,
) -> Result<(), AdminError> {
    let parsed = parse_id(id)?;
    let not_found = || AdminError::DeliveryNotFound(id.to_owned());
    let found = delivery_changes::find(client, parsed).await?.ok_or_else(not_found)?;
    let run = async |tx: &Transaction<'_>| {
        let replayed = replay_in(tx, found.tenant, &[parsed], &[found.subscription], REPLAYABLE).await?;
        if !replayed.is_empty() {
            let target = parsed.to_string();
            record(tx, actor, AuditAction::ReplayDeliveries, &target, Some(found.tenant)).await?;
        }
        Ok(replayed)
    };
    let replayed = transact(client, run).await?;
    let Some((_, was_dead_lettered)) = replayed.first() else {
        let state = delivery_changes::find(client, parsed).await?.ok_or_else(not_found)?.state;
        return Err(if REPLAYABLE.contains(&state) {
            AdminError::DeliveryWithoutSubscription(parsed)
        } else {
            AdminError::DeliveryNotReplayable { id: parsed, state }
        });
    };
    if *was_dead_lettered {
        remove_dead_letters(broker, parsed, observer).await.map_err(AdminError::DeadLetterRemains)?;
    }
    Ok(())
}

/// Replays those of a tenant's deliveries that are dead-lettered and whose subscription exists; returns the ids of these.
pub(crate) async fn replay_dead_lettered(
    client: &mut Client,
    tenant: TenantId,
    deliveries: &[DeliveryMeta],
) -> Result<Vec<Uuid>, AdminError> {
    let ids: Vec<Uuid> = deliveries.iter().map(|meta| meta.delivery_id).collect();
    let mut subscriptions: Vec<Uuid> = deliveries.iter().map(|meta| meta.subscription_id).collect();
    subscriptions.sort_unstable();
    subscriptions.dedup();
    let run = async |tx: &Transaction<'_>| replay_in(tx, tenant, &ids, &subscriptions, DEAD_LETTERED).await;
    let replayed = transact(client, run).await?;
    Ok(replayed.into_iter().map(|(id, _)| id).collect())
}

/// Replays the deliveries that are in one of `states` and whose subscription exists; returns their ids, each with whether
/// it was dead-lettered.
async fn replay_in(
    tx: &Transaction<'_>,
    tenant: TenantId,
    deliveries: &[Uuid],
    subscriptions: &[Uuid],
    states: &[DeliveryState],
) -> Result<Vec<(Uuid, bool)>, AdminError> {
    let held = store::subscriptions::hold(tx, tenant, subscriptions).await?;
    let locked = delivery_changes::lock(tx, tenant, deliveries, &held, states).await?;
    if !locked.is_empty() {
        let ids: Vec<Uuid> = locked.iter().map(|(id, _)| *id).collect();
        delivery_changes::replay(tx, tenant, &ids, clock::now()).await?;
        delivery_changes::wake_dispatcher(tx).await?;
    }
    Ok(locked)
}

/// The delivery of a dead letter of the webhooks queue; `None` if its metadata cannot be parsed.
pub(crate) fn delivery_of(letter: &DeadLetter) -> Option<DeliveryMeta> {
    serde_json::from_str(letter.meta.as_deref()?).ok()
}

/// Removes the dead letters of a delivery from the broker.
async fn remove_dead_letters(
    broker: &OperatorConnection,
    replayed: Uuid,
    observer: &mut impl Observer,
) -> Result<(), OperatorConnectionError> {
    let dead = broker.dead_queue_name(Queue::Webhooks);
    if broker.depth(&dead).await?.is_none_or(|depth| depth.ready == 0) {
        return Ok(());
    }
    let mut scan = broker.scan_dead_letters(Queue::Webhooks, None).await?;
    observer.begin(ProgressStep::CheckDeadLetters, scan.remaining().into());
    let action = |letter: &DeadLetter| match delivery_of(letter) {
        Some(meta) if meta.delivery_id == replayed => DeadLetterAction::Remove,
        Some(_) | None => DeadLetterAction::Keep,
    };
    while let Some(window) = scan.next_window().await? {
        window.settle(action).await?;
        observer.reached(scan.counts().total().into());
    }
    observer.end(scan.counts().total().into());
    scan.finish().await?;
    Ok(())
}
