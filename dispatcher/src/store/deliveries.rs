//! Deliveries without attempts: dropped ones, and notices of dead-lettered ones.

use super::{FIRST, Lease, lease_columns, query};
use common::clock;
use common::db::{Database, TxError, column};
use common::message::DeliveryMeta;
use common::model::TenantId;
use tokio_postgres::Row;
use uuid::Uuid;

/// Deliveries that are dropped together.
const DROPPED: i64 = 1_000;
/// Tenants whose notices are read together.
const TENANTS: i64 = 64;
/// Notices of one of them.
const NOTICES: i64 = 16;

common::statements! {
    const DROP = concat!("
    -- deliveries.drop_pending
    WITH lease AS MATERIALIZED (
        ", super::leases!(), "
    ), dropped AS (
        UPDATE deliveries SET state = 'dropped', next_attempt_at = NULL
        WHERE ctid = ANY(ARRAY(
            SELECT d.row FROM lease CROSS JOIN LATERAL (
                SELECT ctid AS row FROM deliveries d
                WHERE d.slot = lease.slot AND d.subscription_id = $4 AND d.state = 'pending' LIMIT $5::bigint
                FOR UPDATE SKIP LOCKED
            ) AS d
        ))
        RETURNING 1
    )
    SELECT count(*) FROM dropped");

    // Some of each tenant: a loose index scan finds those that come after the last one in turn. Rows that are locked are left out,
    // so that they are not published before they can be marked.
    const NOTICES_DUE = "
    -- deliveries.notices
    WITH RECURSIVE walk AS (
        (SELECT slot, tenant_id FROM deliveries
         WHERE needs_notice AND (slot, tenant_id) > ($2, $3) ORDER BY slot, tenant_id LIMIT 1)
        UNION ALL
        SELECT next.* FROM walk CROSS JOIN LATERAL (
            SELECT slot, tenant_id FROM deliveries
            WHERE needs_notice AND (slot, tenant_id) > (walk.slot, walk.tenant_id) ORDER BY slot, tenant_id LIMIT 1
        ) AS next
    )
    SELECT d.tenant_id, d.delivery_id, d.subscription_id, d.event_id, coalesce(o.event_type, ''), d.attempts, o.traceparent,
           o.request_id, left(coalesce(d.last_error, 'status ' || d.last_status, 'no response'), 1000), d.number, d.slot
    FROM (SELECT * FROM walk WHERE slot = ANY($1::smallint[]) LIMIT $4::bigint) AS turn
    CROSS JOIN LATERAL (
        SELECT * FROM deliveries d WHERE d.slot = turn.slot AND d.tenant_id = turn.tenant_id AND d.needs_notice LIMIT $5::bigint
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS d
    LEFT JOIN LATERAL (
        SELECT event_type, traceparent, request_id FROM outbox o
        WHERE o.tenant_id = d.tenant_id AND o.event_id = d.event_id LIMIT 1
    ) AS o ON true";

    // Only what was told: it may have been replayed, and be dead again, meanwhile. What is locked is told again.
    const NOTICED = "
    -- deliveries.noticed
    UPDATE deliveries SET needs_notice = false WHERE ctid = ANY(ARRAY(
        SELECT d.row FROM unnest($1::uuid[], $2::bigint[], $3::smallint[]) AS told (subscription_id, number, attempts)
        CROSS JOIN LATERAL (
            SELECT ctid AS row FROM deliveries d
            WHERE d.subscription_id = told.subscription_id AND d.number = told.number AND d.attempts = told.attempts
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS d
    ))";
}

/// What is to be published about a dead-lettered delivery.
#[derive(Clone, Debug)]
pub(crate) struct Notice {
    /// Its number in the log of its subscription.
    pub number: i64,
    pub slot: i16,
    pub meta: DeliveryMeta,
}

/// Drops pending deliveries of a removed subscription, at most a thousand; returns whether more may be left.
pub(crate) async fn drop_pending(
    database: &Database, dispatcher: Uuid, lease: Lease, subscription: Uuid,
) -> Result<bool, TxError> {
    let (slots, epochs) = lease_columns(&[lease]);
    let rows = query(database, DROP, &[&slots, &epochs, &dispatcher, &subscription, &DROPPED]).await?;
    Ok(rows.first().map(|row| row.try_get::<_, i64>(0)).transpose()? == Some(DROPPED))
}

/// Loads notices of slots that are to be published: some of each of the tenants that follow a slot and tenant, in this order. Returns
/// after whom the next turn begins.
pub(crate) async fn load_notices(
    database: &Database, slots: &[i16], (slot, tenant): (i16, Uuid),
) -> Result<(Vec<Notice>, (i16, Uuid)), TxError> {
    let notice = |row: &Row| {
        let meta = DeliveryMeta {
            tenant_id: TenantId(row.try_get(0)?),
            delivery_id: row.try_get(1)?,
            subscription_id: row.try_get(2)?,
            event_id: row.try_get(3)?,
            event_type: row.try_get(4)?,
            attempt: row.try_get(5)?,
            published_at: clock::database_now(),
            traceparent: row.try_get(6)?,
            request_id: row.try_get(7)?,
            reason: row.try_get(8)?,
        };
        Ok(Notice { number: row.try_get(9)?, slot: row.try_get(10)?, meta })
    };
    let rows = query(database, NOTICES_DUE, &[&slots, &slot, &tenant, &TENANTS, &NOTICES]).await?;
    let notices: Vec<Notice> = rows.iter().map(notice).collect::<Result<_, TxError>>()?;
    let last = notices.last().map(|last| (last.slot, last.meta.tenant_id.0));
    Ok((notices, last.unwrap_or(FIRST)))
}

/// Marks notices as published.
pub(crate) async fn mark_noticed(database: &Database, notices: &[&Notice]) -> Result<(), TxError> {
    let subscriptions = column(notices, |notice| notice.meta.subscription_id);
    let (numbers, attempts) = (column(notices, |notice| notice.number), column(notices, |notice| notice.meta.attempt));
    query(database, NOTICED, &[&subscriptions, &numbers, &attempts]).await.map(drop)
}
