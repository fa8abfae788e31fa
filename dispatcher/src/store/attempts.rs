//! Attempts: a row for each of them (D26).

use chrono::{DateTime, Utc};
use common::db::Query;
use uuid::Uuid;

common::statements! {
    // A duplicate message may cause two attempts with one number; the first record stays. The response to a delivery that was
    // dropped meanwhile is not kept, because the person whom it was about may have been erased: the look-up is for failed
    // attempts with a response only, and its delivery is locked by the statement before.
    const INSERT = "
    -- attempts.insert
    INSERT INTO attempts (tenant_id, delivery_id, attempt, at, status, error, response, duration_ms)
    SELECT tenant_id, delivery_id, attempt, at, status, error,
           CASE WHEN response IS NOT NULL THEN
               (SELECT new.response FROM deliveries d
                WHERE d.tenant_id = new.tenant_id AND d.delivery_id = new.delivery_id AND d.state <> 'dropped' LIMIT 1)
           END, duration_ms
    FROM unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::timestamptz[], $5::smallint[], $6::text[], $7::text[],
                $8::integer[])
         AS new (tenant_id, delivery_id, attempt, at, status, error, response, duration_ms)
    ON CONFLICT DO NOTHING";
}

/// A row of `attempts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttemptRow {
    pub tenant_id: Uuid,
    pub delivery_id: Uuid,
    /// Its number within the delivery, from 1; grows over replays.
    pub attempt: i16,
    /// When it began.
    pub at: DateTime<Utc>,
    /// HTTP status, when one came.
    pub status: Option<i16>,
    /// Why it failed, without a status.
    pub error: Option<String>,
    /// Beginning of a failed attempt's response body.
    pub response: Option<String>,
    pub duration_ms: i32,
}

/// Inserts attempts, which must be in the lock order of their deliveries.
pub(super) fn insert(rows: &[AttemptRow]) -> Query<'_> {
    Query::new(INSERT)
        .bind_column(rows, |row| row.tenant_id)
        .bind_column(rows, |row| row.delivery_id)
        .bind_column(rows, |row| row.attempt)
        .bind_column(rows, |row| row.at)
        .bind_column(rows, |row| row.status)
        .bind_column(rows, |row| row.error.as_deref())
        .bind_column(rows, |row| row.response.as_deref())
        .bind_column(rows, |row| row.duration_ms)
}
