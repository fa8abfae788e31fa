//! Replays deliveries: they are sent again with the same ids and numbers (D26). Many are replayed by a job, see `replay_job`.
//!
//! The notice of a dead-lettered delivery stays in the dead-letter queue until an operator requeues or drops it.

use super::{Delivery, parse_id};
use crate::audit::{Actor, AuditAction, record};
use crate::store::{deliveries, delivery_changes, subscriptions};
use crate::{AdminError, Result, transact};
use common::model::DeliveryState;
use tokio_postgres::{Client, Transaction};

const REPLAYABLE: &[DeliveryState] = &[DeliveryState::DeadLettered, DeliveryState::Delivered];

/// Replays one delivery; the error says why it cannot be replayed.
pub async fn replay_one(client: &mut Client, actor: &Actor, id: &str) -> Result<()> {
    let parsed = parse_id(id)?;
    let not_found = || AdminError::DeliveryNotFound(id.to_owned());
    let tenant = deliveries::find(client, parsed).await?.ok_or_else(not_found)?.tenant;
    let run = async |tx: &Transaction<'_>| {
        let replayed = delivery_changes::replay(tx, tenant, &[parsed], REPLAYABLE).await?;
        if !replayed.is_empty() {
            record(tx, actor, AuditAction::ReplayDeliveries, &parsed.to_string(), Some(tenant)).await?;
        }
        Ok(!replayed.is_empty())
    };
    if transact(client, run).await? {
        return Ok(());
    }
    let state = delivery_changes::state(client, tenant, parsed).await?.ok_or_else(not_found)?;
    Err(if REPLAYABLE.contains(&state) {
        AdminError::DeliveryWithoutSubscription(parsed)
    } else {
        AdminError::DeliveryNotReplayable(parsed, state)
    })
}

/// Makes the next attempt of a pending delivery due now. Its schedule goes on after that attempt.
pub async fn send_now(client: &mut Client, actor: &Actor, delivery: &Delivery) -> Result<()> {
    let Delivery { id, tenant, subscription_id, .. } = *delivery;
    transact(client, async |tx| {
        let subscription = subscriptions::slug(tx, subscription_id).await?;
        if subscription.is_none_or(|(.., is_paused)| is_paused) {
            let waits = "the subscription is paused or was removed: nothing is sent to it";
            return Err(AdminError::InvalidInput(waits.to_owned()));
        }
        if !delivery_changes::send_now(tx, tenant, id).await? {
            let ended = "the delivery is not pending any more: open its page again";
            return Err(AdminError::InvalidInput(ended.to_owned()));
        }
        record(tx, actor, AuditAction::SendDelivery, &id.to_string(), Some(tenant)).await
    })
    .await
}
