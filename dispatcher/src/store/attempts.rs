//! Attempts: a row for each try (D26).

use super::{column, execute};
use chrono::{DateTime, Utc};
use common::db::TxError;
use deadpool_postgres::GenericClient;
use uuid::Uuid;

// A message that comes twice may be tried twice under one number; the first record stays.
pub(super) const INSERT: &str = "
    -- attempts.insert
    INSERT INTO attempts (tenant_id, delivery_id, attempt, at, status, error, response, duration_ms)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::timestamptz[], $5::smallint[], $6::text[],
                         $7::text[], $8::integer[])
    ON CONFLICT DO NOTHING";

/// A try of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRow {
    /// The agency.
    pub tenant_id: Uuid,
    /// What was tried.
    pub delivery_id: Uuid,
    /// Its number within the delivery, from 1; grows over replays.
    pub attempt: i16,
    /// When it was begun.
    pub at: DateTime<Utc>,
    /// HTTP status, when one came.
    pub status: Option<i16>,
    /// Why it failed, without a status.
    pub error: Option<String>,
    /// Beginning of a failed attempt's response body.
    pub response: Option<String>,
    /// Milliseconds it took.
    pub duration_ms: i32,
}

/// Records attempts, which are given in the order of their deliveries.
pub(super) async fn insert(on: &impl GenericClient, rows: &[AttemptRow]) -> Result<(), TxError> {
    if rows.is_empty() {
        return Ok(());
    }
    execute(
        on,
        INSERT,
        &[
            &column(rows, |row| row.tenant_id),
            &column(rows, |row| row.delivery_id),
            &column(rows, |row| row.attempt),
            &column(rows, |row| row.at),
            &column(rows, |row| row.status),
            &column(rows, |row| row.error.as_deref()),
            &column(rows, |row| row.response.as_deref()),
            &column(rows, |row| row.duration_ms),
        ],
    )
    .await
    .map(drop)
}
