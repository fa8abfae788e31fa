//! Changes of deliveries: replaying ended ones, dropping those of a removed subscription, and waking the dispatcher.

use super::{all, execute, one};
use crate::AdminError;
use chrono::{DateTime, Utc};
use common::model::{DeliveryState, TenantId};
use tokio_postgres::{Client, Row, Transaction};
use uuid::Uuid;

common::statements! {
    const FIND = "-- deliveries.find_to_replay
    SELECT tenant_id, subscription_id, state FROM deliveries WHERE uuid_send(delivery_id) = uuid_send($1) LIMIT 1";

    /// Guarded by the state, so that what was replayed meanwhile, or is on its way, isn't replayed again. Given and locked in
    /// the order of the keys.
    const LOCK_ENDED = "-- deliveries.lock_replayable
    SELECT d.delivery_id, d.state = 'dead' AS was_dead
    FROM unnest($2::uuid[]) AS wanted (delivery_id)
    CROSS JOIN LATERAL (
        SELECT * FROM deliveries d
        WHERE d.tenant_id = $1 AND d.delivery_id = wanted.delivery_id AND d.subscription_id = ANY($3) AND d.state = ANY($4)
        LIMIT 1 FOR UPDATE
    ) d";

    /// Of locked rows. An UPDATE that joins a list of keys may be planned to read the whole table for it.
    const REPLAY = "-- deliveries.replay
    UPDATE deliveries SET state = 'pending', attempts_before = attempts, parked_at = $3, next_attempt_at = $3
    WHERE ctid = ANY(ARRAY(
        SELECT d.place
        FROM unnest($2::uuid[]) AS locked (delivery_id)
        CROSS JOIN LATERAL (
            SELECT d.ctid AS place FROM deliveries d WHERE d.tenant_id = $1 AND d.delivery_id = locked.delivery_id LIMIT 1
        ) d
    ))";

    const DELIVERED_OR_DROPPED = "-- deliveries.delivered_or_dropped
    SELECT delivery_id FROM deliveries
    WHERE tenant_id = $1 AND delivery_id = ANY($2) AND state IN ('delivered', 'dropped')";

    /// Locked in key order. A delivery that the dispatcher finishes meanwhile keeps its outcome.
    const LOCK_OF_SUBSCRIPTION = "-- deliveries.lock_of_subscription
    SELECT delivery_id FROM deliveries
    WHERE uuid_send(subscription_id) = uuid_send($2) AND state = $3 AND delivery_id > $4
        AND tenant_id IS NOT DISTINCT FROM $1
    ORDER BY delivery_id LIMIT $5 FOR UPDATE";

    /// As for a replay.
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

/// What is stored of a delivery that is to be replayed.
pub(crate) struct FoundDelivery {
    pub(crate) tenant: TenantId,
    pub(crate) subscription: Uuid,
    pub(crate) state: DeliveryState,
}

pub(crate) async fn find(client: &Client, id: Uuid) -> Result<Option<FoundDelivery>, AdminError> {
    let read = |row: &Row| {
        Ok(FoundDelivery {
            tenant: TenantId(row.try_get("tenant_id")?),
            subscription: row.try_get("subscription_id")?,
            state: super::deliveries::state(row)?,
        })
    };
    one(client, FIND, &[&id], read).await
}

/// Locks those of the deliveries that are in one of `states` and whose subscription is one of `subscriptions`. Returns
/// their ids, each with whether it is dead-lettered.
pub(crate) async fn lock(
    tx: &Transaction<'_>,
    tenant: TenantId,
    ids: &[Uuid],
    subscriptions: &[Uuid],
    states: &[DeliveryState],
) -> Result<Vec<(Uuid, bool)>, AdminError> {
    let states: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    let locked = |row: &Row| Ok((row.try_get("delivery_id")?, row.try_get("was_dead")?));
    all(tx, LOCK_ENDED, &[&tenant.0, &ids, &subscriptions, &states], locked).await
}

/// Parks locked deliveries, so that the dispatcher attempts them from `now` on.
pub(crate) async fn replay(
    tx: &Transaction<'_>,
    tenant: TenantId,
    ids: &[Uuid],
    now: DateTime<Utc>,
) -> Result<(), AdminError> {
    execute(tx, REPLAY, &[&tenant.0, &ids, &now]).await?;
    Ok(())
}

/// Those of the deliveries that were delivered or dropped.
pub(crate) async fn delivered_or_dropped(
    client: &Client,
    tenant: TenantId,
    ids: &[Uuid],
) -> Result<Vec<Uuid>, AdminError> {
    all(client, DELIVERED_OR_DROPPED, &[&tenant.0, &ids], |row| Ok(row.try_get("delivery_id")?)).await
}

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
    let ids: Vec<Uuid> =
        all(tx, LOCK_OF_SUBSCRIPTION, parameters, |row| Ok(row.try_get("delivery_id")?)).await?;
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
