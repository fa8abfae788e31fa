//! The results of attempts.

use super::{Lease, lease_columns, query};
use chrono::{DateTime, Utc};
use common::db::{Database, TxError, column};
use common::model::DeliveryState;
use std::collections::HashSet;
use std::time::Duration;
use uuid::Uuid;

/// The delivery `d` is one whose next result is `new`.
macro_rules! recordable {
    () => {
        "d.subscription_id = new.subscription_id AND d.number = new.number
              AND d.delivery_id IS NOT DISTINCT FROM new.delivery_id AND d.attempts IN (new.attempts - 1, 32767)
              AND d.state IN ('pending', 'dropped')"
    };
}

common::statements! {
    // A result is recorded once: the number of attempts tells whether it was, unless its column is full. The id is compared because a
    // server that has crashed may have lost a delivery that was fanned out, and given its number to another one. A delivery that was
    // dropped meanwhile stays so unless it arrived. The response to it is not kept, because the person whom it was about may have been
    // erased; a test event, which is dropped when it fails, is about nobody.
    //
    // A delivery that another transaction has locked is passed over, because those of other tenants must not wait for it; the
    // last rows name these results. One that was changed since the snapshot is passed over as well.
    //
    // `first` keeps the result of an attempt that has no row of its own, because it succeeded at once, when a replay replaces it.
    const RECORD = concat!("
    -- deliveries.record
    WITH lease AS MATERIALIZED (
        ", super::leases!(), "
    ), new AS MATERIALIZED (
        SELECT * FROM unnest($4::uuid[], $5::bigint[], $6::uuid[], $7::smallint[], $8::text[], $9::smallint[], $10::float8[],
                             $11::timestamptz[], $12::smallint[], $13::text[], $14::text[], $15::integer[], $16::bigint[],
                             $17::text[])
            WITH ORDINALITY AS new (subscription_id, number, delivery_id, slot, state, attempts, due_in, at, status, error,
                                    response, duration_ms, epoch, headers, place)
        WHERE EXISTS (SELECT FROM lease WHERE lease.slot = new.slot AND lease.epoch = new.epoch)
    ), free AS MATERIALIZED (
        SELECT new.*, d.row, d.last_at, d.last_status, d.last_duration_ms
        FROM new
        CROSS JOIN LATERAL (
            SELECT ctid AS row, last_at, last_status, last_duration_ms FROM deliveries d
            WHERE ", recordable!(), " FOR NO KEY UPDATE SKIP LOCKED
        ) AS d
    ), updated AS (
        UPDATE deliveries d
        SET state = CASE WHEN d.state = 'pending' OR new.state = 'delivered' THEN new.state ELSE d.state END,
            next_attempt_at = CASE WHEN d.state = 'pending' THEN now() + make_interval(secs => new.due_in) END,
            needs_notice = d.state = 'pending' AND new.state = 'dead', attempts = new.attempts, last_at = new.at,
            last_status = new.status, last_error = new.error, last_duration_ms = new.duration_ms
        FROM free AS new
        WHERE d.ctid = new.row
        RETURNING d.tenant_id, d.delivery_id, d.state, new.attempts, new.at, new.status, new.error,
                  CASE WHEN d.state <> 'dropped' OR new.state = 'dropped' THEN new.response END AS response,
                  CASE WHEN d.state <> 'dropped' OR new.state = 'dropped' THEN new.headers END AS headers, new.duration_ms, new.place,
                  new.last_at AS first_at, new.last_status AS first_status, new.last_duration_ms AS first_duration_ms
    ), first AS (
        INSERT INTO attempts (tenant_id, delivery_id, attempt, at, status, duration_ms)
        SELECT tenant_id, delivery_id, 1, first_at, first_status, coalesce(first_duration_ms, 0)
        FROM updated WHERE attempts = 2 AND first_at IS NOT NULL
        ON CONFLICT DO NOTHING
    ), kept AS (
        INSERT INTO attempts (tenant_id, delivery_id, attempt, at, status, error, response, response_headers, duration_ms)
        SELECT tenant_id, delivery_id, attempts, at, status, error, response, headers, duration_ms
        FROM updated WHERE state <> 'delivered' OR attempts > 1
        ON CONFLICT DO NOTHING
    )
    SELECT count(*), NULL::bigint FROM updated
    UNION ALL
    SELECT NULL, place FROM new
    WHERE place NOT IN (SELECT place FROM updated) AND EXISTS (SELECT FROM deliveries d WHERE ", recordable!(), ")");
}

/// The result of an attempt, and what follows from it.
#[derive(Clone, Debug)]
pub(crate) struct AttemptRecord {
    pub lease: Lease,
    pub tenant_id: Uuid,
    pub subscription_id: Uuid,
    pub number: i64,
    pub delivery_id: Uuid,
    pub state: DeliveryState,
    /// Attempts made so far, this one included.
    pub attempts: i16,
    /// Until the next attempt; `None` if none follows.
    pub due_in: Option<Duration>,
    /// When it began.
    pub at: DateTime<Utc>,
    /// HTTP status, when one came.
    pub status: Option<i16>,
    /// Why it failed, without a status.
    pub error: Option<String>,
    /// Beginning of a failed attempt's response body.
    pub response: Option<String>,
    /// The headers of its response that explain it, a line each.
    pub headers: Option<String>,
    pub duration_ms: i32,
}

/// Records results, of different deliveries. Returns the number of those that were recorded now: not those of a slot that
/// `dispatcher` has lost, and not those that are on record already. Also the indexes of those that can be recorded later, because
/// other transactions have locked their deliveries.
pub(crate) async fn record(
    database: &Database, dispatcher: Uuid, rows: &[AttemptRecord],
) -> Result<(usize, HashSet<usize>), TxError> {
    let mut leases = column(rows, |row| row.lease);
    leases.sort_unstable_by_key(|lease| (lease.slot, lease.epoch));
    leases.dedup();
    let (slots, epochs) = lease_columns(&leases);
    let found = query(
        database,
        RECORD,
        &[
            &slots,
            &epochs,
            &dispatcher,
            &column(rows, |row| row.subscription_id),
            &column(rows, |row| row.number),
            &column(rows, |row| row.delivery_id),
            &column(rows, |row| row.lease.slot),
            &column(rows, |row| row.state.as_str()),
            &column(rows, |row| row.attempts),
            &column(rows, |row| row.due_in.map(|due_in| due_in.as_secs_f64())),
            &column(rows, |row| row.at),
            &column(rows, |row| row.status),
            &column(rows, |row| row.error.as_deref()),
            &column(rows, |row| row.response.as_deref()),
            &column(rows, |row| row.duration_ms),
            &column(rows, |row| row.lease.epoch),
            &column(rows, |row| row.headers.as_deref()),
        ],
    )
    .await?;
    let (mut count, mut locked) = (0, HashSet::new());
    for row in found {
        let number = |number: i64| usize::try_from(number).unwrap_or_default();
        match row.try_get::<_, Option<i64>>(1)? {
            None => count = number(row.try_get(0)?),
            Some(place) => drop(locked.insert(number(place - 1))),
        }
    }
    Ok((count, locked))
}
