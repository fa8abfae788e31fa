//! Deliveries that can be replayed, and their replay.

use super::{all, exactly_one, execute, one};
use crate::AdminError;
use crate::deliveries::ReplaySelection;
use chrono::{DateTime, Utc};
use common::model::{DeliveryState, TenantId};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Transaction};
use uuid::Uuid;

common::statements! {
    const FIND = "-- deliveries.find_to_replay
    SELECT tenant_id, subscription_id, state FROM deliveries WHERE uuid_send(delivery_id) = uuid_send($1) LIMIT 1";

    const COUNT = "-- deliveries.count_replayable
    SELECT coalesce(sum(d.counted), 0)::bigint
    FROM unnest($2::uuid[]) AS s (subscription_id) CROSS JOIN unnest($3::text[]) AS w (state)
    CROSS JOIN LATERAL (
        SELECT count(*) AS counted FROM deliveries d
        WHERE uuid_send(d.subscription_id) = uuid_send(s.subscription_id) AND d.state = w.state
            AND d.tenant_id IS NOT DISTINCT FROM $1
            AND ($4::timestamptz IS NULL OR d.created_at >= $4) AND ($5::timestamptz IS NULL OR d.created_at < $5)
    ) d";

    const NEXT = "-- deliveries.next_replayable
    SELECT d.delivery_id, d.subscription_id
    FROM unnest($2::uuid[]) AS s (subscription_id) CROSS JOIN unnest($3::text[]) AS w (state)
    CROSS JOIN LATERAL (
        SELECT * FROM deliveries d
        WHERE uuid_send(d.subscription_id) = uuid_send(s.subscription_id) AND d.state = w.state AND d.delivery_id > $6
            AND d.tenant_id IS NOT DISTINCT FROM $1
            AND ($4::timestamptz IS NULL OR d.created_at >= $4) AND ($5::timestamptz IS NULL OR d.created_at < $5)
        ORDER BY d.delivery_id LIMIT $7
    ) d
    ORDER BY d.delivery_id LIMIT $7";

    /// Guarded by the state, so that what was replayed meanwhile, or is on its way, isn't replayed again. Given and locked in
    /// the order of the keys.
    const LOCK = "-- deliveries.lock_replayable
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
}

/// Maximum number of deliveries of one transaction.
const BATCH: i64 = 500;

/// A delivery and its subscription.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplayTarget {
    pub(crate) id: Uuid,
    pub(crate) subscription: Uuid,
}

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

/// The number of selected deliveries to `subscriptions`.
pub(crate) async fn count(
    client: &Client,
    selection: &ReplaySelection,
    subscriptions: &[Uuid],
) -> Result<u64, AdminError> {
    let ReplaySelection { tenant, dead: _, from, to } = selection;
    let states = names(selection.states());
    let counted = exactly_one(client, COUNT, &[&tenant.0, &subscriptions, &states, from, to]).await?;
    Ok(u64::try_from(counted.try_get::<_, i64>(0)?).unwrap_or_default())
}

/// The next batch of selected deliveries to `subscriptions`, in the order of their ids, after `after`.
pub(crate) async fn next(
    client: &Client,
    selection: &ReplaySelection,
    subscriptions: &[Uuid],
    after: Uuid,
) -> Result<Vec<ReplayTarget>, AdminError> {
    let ReplaySelection { tenant, dead: _, from, to } = selection;
    let states = names(selection.states());
    let parameters: [&(dyn ToSql + Sync); 7] = [&tenant.0, &subscriptions, &states, from, to, &after, &BATCH];
    let target = |row: &Row| {
        Ok(ReplayTarget { id: row.try_get("delivery_id")?, subscription: row.try_get("subscription_id")? })
    };
    all(client, NEXT, &parameters, target).await
}

/// Locks those of the deliveries that are in one of `states` and whose subscription is one of `subscriptions`. Returns
/// their ids, each with whether it is dead-lettered.
pub(crate) async fn lock(
    tx: &Transaction<'_>,
    tenant: TenantId,
    targets: &[ReplayTarget],
    subscriptions: &[Uuid],
    states: &[DeliveryState],
) -> Result<Vec<(Uuid, bool)>, AdminError> {
    let ids: Vec<Uuid> = targets.iter().map(|target| target.id).collect();
    let locked = |row: &Row| Ok((row.try_get("delivery_id")?, row.try_get("was_dead")?));
    all(tx, LOCK, &[&tenant.0, &ids, &subscriptions, &names(states)], locked).await
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

fn names(states: &[DeliveryState]) -> Vec<&'static str> {
    states.iter().map(|state| state.as_str()).collect()
}
