//! Removing a subscription, and dropping its pending deliveries (D24).

use super::{Subscription, parse_id};
use crate::audit::{Actor, AuditAction, record};
use crate::transaction::transact;
use crate::{AdminError, store};
use common::clock;
use tokio_postgres::{Client, Transaction};
use uuid::Uuid;

/// Removes the subscription, and in the same transaction drops the first batch of its pending deliveries. The remaining
/// ones follow batch by batch; until then the dispatcher checks before each attempt whether the subscription is removed.
/// If the operation is interrupted, another run drops the rest.
pub async fn remove(client: &mut Client, actor: &Actor, id: &str) -> Result<Subscription, AdminError> {
    let (parsed, now) = (parse_id(id)?, clock::now());
    let begin = async |tx: &Transaction<'_>| {
        let removed = match store::subscriptions::remove(tx, parsed, now).await? {
            Some(removed) => Some((removed, true)),
            None => store::subscriptions::removed(tx, parsed).await?.map(|before| (before, false)),
        };
        let not_found = || AdminError::SubscriptionNotFound(id.to_owned());
        let ((tenant, subscription), is_new) = removed.ok_or_else(not_found)?;
        let last = store::pending_deliveries::drop_batch(tx, tenant, parsed, Uuid::nil()).await?;
        if last.is_none() && !is_new {
            return Err(AdminError::SubscriptionRemoved(id.to_owned()));
        }
        record(tx, actor, AuditAction::RemoveSubscription, &parsed.to_string(), Some(tenant)).await?;
        Ok((tenant, last, subscription))
    };
    let (tenant, mut last, subscription) = transact(client, begin).await?;
    while let Some(after) = last {
        let next = async |tx: &Transaction<'_>| {
            store::pending_deliveries::drop_batch(tx, tenant, parsed, after).await
        };
        last = transact(client, next).await?;
    }
    Ok(subscription)
}
