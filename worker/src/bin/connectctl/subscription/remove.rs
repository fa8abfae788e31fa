//! `connectctl subscription remove`: its deliveries are dropped (D24).

use super::{Named, Subscription};
use crate::context::Context;
use crate::rows::FromRow;
use anyhow::anyhow;
use common::clock;
use common::model::TenantId;
use tokio_postgres::{Row, Transaction};
use uuid::Uuid;

const REMOVE: &str = "-- subscriptions.remove
UPDATE subscriptions SET removed_at = $2 WHERE subscription_id = $1 AND removed_at IS NULL
RETURNING tenant_id, subscription_id, url, key_prefix, event_types, created_at, paused_at, removed_at";

const REMOVED: &str = "-- subscriptions.removed
SELECT tenant_id, subscription_id, url, key_prefix, event_types, created_at, paused_at, removed_at
FROM subscriptions WHERE subscription_id = $1 AND removed_at IS NOT NULL";

/// Locked in the order of their keys. What the dispatcher finishes meanwhile is as it says.
const DROP: &str = "-- deliveries.drop_pending
WITH batch AS (
    SELECT delivery_id FROM deliveries
    WHERE tenant_id = $1 AND subscription_id = $2 AND state = 'pending' AND delivery_id > $3
    ORDER BY delivery_id LIMIT $4 FOR UPDATE
)
UPDATE deliveries SET state = 'dropped', parked_at = NULL, next_attempt_at = NULL
FROM batch WHERE deliveries.tenant_id = $1 AND deliveries.delivery_id = batch.delivery_id
RETURNING deliveries.delivery_id";

/// Deliveries dropped by one statement, and all but the first by one transaction: the dispatcher waits for none long.
const BATCH: i64 = 1_000;

/// Removes it, and in the same transaction drops what waits for it, or of a long backlog the first part. Until the
/// rest is dropped as well, the dispatcher sees before each attempt that nobody wants it. When the command was killed
/// on the way, another run drops what is left.
pub(super) async fn remove(named: &Named, context: &mut Context) -> anyhow::Result<Subscription> {
    let (id, now) = (named.id()?, clock::now());
    let begin = async |tx: &Transaction<'_>| {
        let removed = match tx.query_opt(REMOVE, &[&id, &now]).await? {
            Some(removed) => Some((removed, true)),
            None => tx.query_opt(REMOVED, &[&id]).await?.map(|before| (before, false)),
        };
        let (row, is_new) = removed.ok_or_else(|| named.unknown())?;
        let tenant = TenantId(row.try_get("tenant_id")?);
        let last = drop_batch(tx, tenant, id, Uuid::nil()).await?;
        if last.is_none() && !is_new {
            return Err(anyhow!("subscription {:?} is removed", named.id));
        }
        Ok((tenant, last, Subscription::from_row(&row)?))
    };
    let (tenant, mut last, subscription) = context.transact(begin).await?;
    while let Some(after) = last {
        last = context.transact(async |tx| drop_batch(tx, tenant, id, after).await).await?;
    }
    Ok(subscription)
}

/// Drops the next deliveries after `after`; the last one's id, `None` when there are no more.
async fn drop_batch(
    tx: &Transaction<'_>,
    tenant: TenantId,
    subscription: Uuid,
    after: Uuid,
) -> anyhow::Result<Option<Uuid>> {
    let dropped = tx.query(DROP, &[&tenant.0, &subscription, &after, &BATCH]).await?;
    let ids = dropped.iter().map(|row: &Row| row.try_get("delivery_id"));
    Ok(ids.collect::<Result<Vec<Uuid>, _>>()?.into_iter().max())
}
