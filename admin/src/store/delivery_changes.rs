//! Changes of deliveries: replaying ended ones, dropping those of a removed subscription, and waking the dispatchers.

use super::{all, execute, one};
use crate::Result;
use common::model::{DeliveryState, TenantId};
use tokio_postgres::{Client, Transaction};
use uuid::Uuid;

common::statements! {
    const STATE = "-- deliveries.state
    SELECT state FROM deliveries WHERE tenant_id = $1 AND delivery_id = $2";

    /// Guarded by the state, so that what was replayed meanwhile isn't replayed again. Locked in the order of the keys. A
    /// subscription that is removed meanwhile drops its deliveries when they are due.
    const REPLAY = "-- deliveries.replay
    UPDATE deliveries SET state = 'pending', attempts_before = attempts, next_attempt_at = now(), needs_notice = false
    WHERE ctid = ANY(ARRAY(
        SELECT d.place
        FROM unnest($2::uuid[]) AS wanted (delivery_id)
        CROSS JOIN LATERAL (
            SELECT d.ctid AS place, d.subscription_id FROM deliveries d
            WHERE d.tenant_id = $1 AND d.delivery_id = wanted.delivery_id AND d.state IN ('dead', 'delivered')
              AND d.state = ANY($3::text[])
            LIMIT 1 FOR UPDATE
        ) d
        CROSS JOIN LATERAL (
            SELECT FROM subscriptions s
            WHERE s.tenant_id = $1 AND s.subscription_id = d.subscription_id AND s.removed_at IS NULL LIMIT 1
        ) s
    ))
    RETURNING delivery_id";

    /// One that is due already keeps its place.
    const SEND_NOW = "-- deliveries.send_now
    UPDATE deliveries SET next_attempt_at = least(next_attempt_at, now())
    WHERE tenant_id = $1 AND delivery_id = $2 AND state = 'pending'";

    /// A delivery that the dispatcher finishes meanwhile keeps its outcome.
    const DROP = "-- deliveries.drop
    UPDATE deliveries SET state = 'dropped', next_attempt_at = NULL, needs_notice = false
    WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM deliveries
        WHERE slot = $4 AND subscription_id = $2 AND state = 'pending' LIMIT $3::bigint FOR UPDATE
    ) || ARRAY(
        SELECT ctid FROM deliveries
        WHERE tenant_id = $1 AND subscription_id = $2 AND state = 'dead' LIMIT $3::bigint FOR UPDATE
    ))";

    const WAKE_DISPATCHERS = "-- dispatchers.wake
    SELECT pg_notify('connect_deliveries', '')";
}

/// Maximum number of deliveries of a state that one transaction drops, so that the dispatcher does not wait long for its locks.
const BATCH: i64 = 1_000;

pub(crate) async fn state(client: &Client, tenant: TenantId, id: Uuid) -> Result<Option<DeliveryState>> {
    one(client, STATE, &[&tenant.0, &id], super::deliveries::state).await
}

/// Makes those of the deliveries pending that are in one of `states` and whose subscription was not removed, and returns their
/// ids. The dispatchers attempt them as soon as `tx` commits.
pub(crate) async fn replay(
    tx: &Transaction<'_>, tenant: TenantId, ids: &[Uuid], states: &[DeliveryState],
) -> Result<Vec<Uuid>> {
    let states: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    let replayed = all(tx, REPLAY, &[&tenant.0, &ids, &states], |row| Ok(row.try_get(0)?)).await?;
    if !replayed.is_empty() {
        wake_dispatchers(tx).await?;
    }
    Ok(replayed)
}

/// Makes the next attempt of a pending delivery due. `false` if it is not pending.
pub(crate) async fn send_now(tx: &Transaction<'_>, tenant: TenantId, id: Uuid) -> Result<bool> {
    let is_pending = execute(tx, SEND_NOW, &[&tenant.0, &id]).await? > 0;
    if is_pending {
        wake_dispatchers(tx).await?;
    }
    Ok(is_pending)
}

/// Drops the next batch of a removed subscription's pending and dead-lettered deliveries, and returns their number.
pub(crate) async fn drop_batch(tx: &Transaction<'_>, tenant: TenantId, subscription: Uuid) -> Result<u64> {
    execute(tx, DROP, &[&tenant.0, &subscription, &BATCH, &tenant.slot()]).await
}

/// Makes the dispatchers look for due deliveries as soon as `tx` commits, instead of at their next look.
pub(crate) async fn wake_dispatchers(tx: &Transaction<'_>) -> Result<()> {
    execute(tx, WAKE_DISPATCHERS, &[]).await?;
    Ok(())
}
