//! Advisor actions that were taken from their queue and are not applied yet.

use chrono::{DateTime, Utc};
use common::broker::Message;
use common::db::{Database, Query, TxError, column};
use common::model::TenantId;
use std::collections::HashMap;
use tokio_postgres::Row;

common::statements! {
    const ADD = "
    -- advisor_actions.add
    INSERT INTO advisor_actions (tenant_id, received_at, properties, body)
    SELECT tenant_id, now(), properties, body
    FROM unnest($1::uuid[], $2::text[], $3::bytea[]) WITH ORDINALITY AS new (tenant_id, properties, body, place)
    ORDER BY place";

    // A loose index scan finds the next tenants, so that the actions of one are not read before those of another.
    const NEXT = "
    -- advisor_actions.next
    WITH RECURSIVE turn AS (
        SELECT next.tenant_id, 1 AS place
        FROM (SELECT tenant_id FROM advisor_actions a WHERE a.tenant_id > $1 ORDER BY tenant_id LIMIT 1) AS next
        UNION ALL
        SELECT next.tenant_id, turn.place + 1
        FROM turn
        CROSS JOIN LATERAL (
            SELECT tenant_id FROM advisor_actions a WHERE a.tenant_id > turn.tenant_id ORDER BY tenant_id LIMIT 1
        ) AS next
        WHERE turn.place < $2
    )
    SELECT a.tenant_id, a.number, a.received_at, a.attempts, a.properties, a.body
    FROM turn
    CROSS JOIN LATERAL (
        SELECT * FROM advisor_actions a WHERE a.tenant_id = turn.tenant_id ORDER BY number LIMIT $3
    ) AS a
    ORDER BY turn.place, a.number";

    const COUNT_ATTEMPT = "
    -- advisor_actions.count_attempt
    UPDATE advisor_actions SET attempts = greatest(attempts + $3, 0) WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM advisor_actions WHERE tenant_id = $1 AND number = $2 FOR UPDATE SKIP LOCKED
    )) RETURNING 1";

    // Another worker may be applying it, here and above.
    const CLAIM = "
    -- advisor_actions.claim
    SELECT 1 FROM advisor_actions WHERE tenant_id = $1 AND number = $2 FOR UPDATE SKIP LOCKED";

    const REMOVE = "
    -- advisor_actions.remove
    DELETE FROM advisor_actions WHERE tenant_id = $1 AND number = $2 RETURNING 1";

    const COUNT = "
    -- advisor_actions.count
    SELECT tenant_id, count(*)
    FROM (SELECT tenant_id FROM advisor_actions ORDER BY tenant_id, number LIMIT $1) AS waiting GROUP BY tenant_id";
}

/// Tenants in one turn, and actions of each.
pub(crate) const TENANTS: u8 = 32;
const EACH: i64 = 4;

/// An action that waits.
#[derive(Clone, Debug)]
pub(crate) struct StoredAction {
    pub(crate) tenant: TenantId,
    /// Its place among the actions of the tenant.
    pub(crate) number: i64,
    /// When it was taken from the queue.
    pub(crate) received_at: DateTime<Utc>,
    /// How many workers have begun with it and were killed.
    pub(crate) attempts: i16,
    pub(crate) message: Message,
}

/// Adds actions in their order.
pub(crate) async fn add_actions(database: &Database, actions: &[(TenantId, &Message)]) -> Result<(), TxError> {
    let tenants = column(actions, |(tenant, _)| tenant.0);
    let properties = column(actions, |(_, message)| message.stored_properties());
    let bodies = column(actions, |(_, message)| message.body.as_slice());
    database.query(ADD.as_str(), &[&tenants, &properties, &bodies]).await?;
    Ok(())
}

/// The oldest actions of each of the next [`TENANTS`] after this one, tenant by tenant.
pub(crate) async fn next_actions(database: &Database, after: TenantId) -> Result<Vec<StoredAction>, TxError> {
    let rows = database.query(NEXT.as_str(), &[&after.0, &i32::from(TENANTS), &EACH]).await?;
    Ok(rows.iter().map(stored_action).collect())
}

fn stored_action(row: &Row) -> StoredAction {
    StoredAction {
        tenant: TenantId(row.get(0)),
        number: row.get(1),
        received_at: row.get(2),
        attempts: row.get(3),
        message: Message::from_stored(row.get(4), row.get(5)),
    }
}

/// Counts an attempt to apply an action, or, because it was put off, one less. It is committed before the attempt, so that one that
/// kills the worker is counted. `false` if the action is gone, or another worker has locked it.
pub(crate) async fn count_attempt(
    database: &Database, tenant: TenantId, number: i64, change: i16,
) -> Result<bool, TxError> {
    Ok(!database.query(COUNT_ATTEMPT.as_str(), &[&tenant.0, &number, &change]).await?.is_empty())
}

/// Locks an action. It returns no row if the action is gone, or another worker has locked it.
pub(crate) fn claim_action(tenant: TenantId, number: i64) -> Query<'static> {
    Query::new(CLAIM).bind(tenant.0).bind(number)
}

/// Removes an action in the transaction that applies it.
pub(crate) fn remove_action(tenant: TenantId, number: i64) -> Query<'static> {
    Query::new(REMOVE).bind(tenant.0).bind(number)
}

/// Removes an action that will not be applied. `false` if it is gone.
pub(crate) async fn drop_action(database: &Database, tenant: TenantId, number: i64) -> Result<bool, TxError> {
    Ok(!database.query(REMOVE.as_str(), &[&tenant.0, &number]).await?.is_empty())
}

/// How many actions wait of each tenant, counted up to `most` in all.
pub(crate) async fn count_actions(database: &Database, most: u32) -> Result<HashMap<TenantId, u32>, TxError> {
    let rows = database.query(COUNT.as_str(), &[&i64::from(most)]).await?;
    let count = |row: &Row| (TenantId(row.get(0)), u32::try_from(row.get::<_, i64>(1)).unwrap_or(most));
    Ok(rows.iter().map(count).collect())
}
