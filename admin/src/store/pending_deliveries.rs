//! Deliveries that are neither delivered nor dropped: dropping those of a removed subscription, and waking the dispatcher.

use super::{all, execute};
use crate::AdminError;
use common::model::{DeliveryState, TenantId};
use tokio_postgres::Transaction;
use uuid::Uuid;

common::statements! {
    /// Locked in key order. A delivery that the dispatcher finishes meanwhile keeps its outcome.
    const LOCK = "-- deliveries.lock_of_subscription
    SELECT delivery_id FROM deliveries
    WHERE uuid_send(subscription_id) = uuid_send($2) AND state = $3 AND delivery_id > $4
        AND tenant_id IS NOT DISTINCT FROM $1
    ORDER BY delivery_id LIMIT $5 FOR UPDATE";

    /// Of locked rows. An UPDATE that joins a list of keys may be planned to read the whole table for it.
    const DROP = "-- deliveries.drop
    UPDATE deliveries SET state = 'dropped', parked_at = NULL, next_attempt_at = NULL
    WHERE ctid = ANY(ARRAY(
        SELECT d.place
        FROM unnest($2::uuid[]) AS locked (delivery_id)
        CROSS JOIN LATERAL (
            SELECT d.ctid AS place FROM deliveries d WHERE d.tenant_id = $1 AND d.delivery_id = locked.delivery_id LIMIT 1
        ) d
    ))";

    const WAKE_DISPATCHER = "-- dispatcher.wake
    SELECT pg_notify('connect_parked', '')";
}

/// Maximum number of deliveries dropped by one transaction, so that the dispatcher does not wait long for its locks.
const BATCH: i64 = 1_000;

/// Drops the next batch of a subscription's deliveries in that state, after `after`. Returns the last one's id; `None` if
/// there are no more.
pub(crate) async fn drop_batch(
    tx: &Transaction<'_>,
    tenant: TenantId,
    subscription: Uuid,
    state: DeliveryState,
    after: Uuid,
) -> Result<Option<Uuid>, AdminError> {
    let parameters: super::Parameters<'_> = &[&tenant.0, &subscription, &state.as_str(), &after, &BATCH];
    let ids: Vec<Uuid> = all(tx, LOCK, parameters, |row| Ok(row.try_get("delivery_id")?)).await?;
    if !ids.is_empty() {
        execute(tx, DROP, &[&tenant.0, &ids]).await?;
    }
    Ok(ids.into_iter().max())
}

/// Makes the dispatcher look for parked deliveries as soon as `tx` commits, instead of at its next poll.
pub(crate) async fn wake_dispatcher(tx: &Transaction<'_>) -> Result<(), AdminError> {
    execute(tx, WAKE_DISPATCHER, &[]).await?;
    Ok(())
}
