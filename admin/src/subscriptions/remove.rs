//! Removing a subscription, and dropping its deliveries that are not delivered (D24).

use super::{Subscription, parse_id};
use crate::audit::{Actor, AuditAction, record};
use crate::transaction::transact;
use crate::{AdminError, store};
use common::clock;
use common::model::DeliveryState;
use tokio_postgres::{Client, Transaction};
use uuid::Uuid;

/// The states of deliveries that are dropped. Those that are dead-lettered could not be replayed any more, and retention keeps
/// them until they are settled.
const DROPPED: [DeliveryState; 2] = [DeliveryState::Pending, DeliveryState::DeadLettered];

/// Removes the subscription, and in the same transaction drops the first batch of its deliveries in each of the states
/// [`DROPPED`]. The remaining ones follow batch by batch; until then the dispatcher checks before each attempt whether the
/// subscription is removed. If the operation is interrupted, another run drops the rest.
pub async fn remove(client: &mut Client, actor: &Actor, id: &str) -> Result<Subscription, AdminError> {
    let (parsed, now) = (parse_id(id)?, clock::now());
    let begin = async |tx: &Transaction<'_>| {
        let removed = match store::subscriptions::remove(tx, parsed, now).await? {
            Some(removed) => Some((removed, true)),
            None => store::subscriptions::removed(tx, parsed).await?.map(|before| (before, false)),
        };
        let not_found = || AdminError::SubscriptionNotFound(id.to_owned());
        let ((tenant, subscription), is_new) = removed.ok_or_else(not_found)?;
        let mut last = [None; DROPPED.len()];
        for (state, last) in DROPPED.into_iter().zip(&mut last) {
            *last = store::delivery_changes::drop_batch(tx, tenant, parsed, state, Uuid::nil()).await?;
        }
        if !is_new && last.iter().all(Option::is_none) {
            return Err(AdminError::SubscriptionRemoved(id.to_owned()));
        }
        record(tx, actor, AuditAction::RemoveSubscription, &parsed.to_string(), Some(tenant)).await?;
        Ok((tenant, last, subscription))
    };
    let (tenant, last, subscription) = transact(client, begin).await?;
    for (state, mut last) in DROPPED.into_iter().zip(last) {
        while let Some(after) = last {
            let next = async |tx: &Transaction<'_>| {
                store::delivery_changes::drop_batch(tx, tenant, parsed, state, after).await
            };
            last = transact(client, next).await?;
        }
    }
    Ok(subscription)
}
