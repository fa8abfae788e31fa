//! Settled deliveries with their attempts. Those that wait, are under way or dead-lettered are never removed (D31).

use super::position::first_id;
use super::rule::number;
use super::{Position, STEP_ROWS, Step};
use chrono::{DateTime, Utc};
use tokio_postgres::{Client, Error, Transaction};
use uuid::Uuid;

pub(super) const TABLE: &str = "deliveries";
pub(super) const ATTEMPTS_TABLE: &str = "attempts";

/// The oldest settled deliveries `d` that have expired, with their attempts `a`. `$limit` follows the order of the deliveries.
macro_rules! expired {
    ($limit:literal) => {
        concat!(
            "FROM (SELECT tenant_id, delivery_id, created_at FROM deliveries
          WHERE state IN ('delivered', 'dropped') AND delivery_id < $1
          ORDER BY delivery_id ",
            $limit,
            ") AS d
    CROSS JOIN LATERAL (
        SELECT count(*) AS attempts, max(at) AS last FROM attempts a
        WHERE a.tenant_id = d.tenant_id AND a.delivery_id = d.delivery_id
    ) AS a
    WHERE a.last IS NULL OR a.last < $2"
        )
    };
}

crate::statements! {
    // A delivery that was replayed lately is old by its id, which has its event's time, and recent by its last attempt. It is kept.
    // If a delivery is replayed while the statement runs, its ctid has changed, so that the statement does not remove it. A delivery
    // has fewer attempts than the limit. The limits keep the planner from reading a whole table once instead of a few rows for
    // each delivery, which it may do for EXISTS.
    const EXPIRE = "
    -- deliveries.expire
    WITH oldest AS MATERIALIZED (
        SELECT d.place, d.delivery_id,
               (SELECT true FROM attempts a
                WHERE a.tenant_id = d.tenant_id AND a.delivery_id = d.delivery_id AND a.at >= $4
                LIMIT 1) IS NOT NULL AS is_recent
        FROM (SELECT ctid AS place, tenant_id, delivery_id FROM deliveries
              WHERE state IN ('delivered', 'dropped') AND delivery_id > $1 AND delivery_id < $2
              ORDER BY delivery_id LIMIT $3::bigint) AS d
    ), removed AS (
        DELETE FROM deliveries WHERE ctid = ANY(ARRAY(SELECT place FROM oldest WHERE NOT is_recent))
        RETURNING tenant_id, delivery_id
    ), removed_attempts AS (
        DELETE FROM attempts WHERE ctid = ANY(ARRAY(
            SELECT a.place FROM removed CROSS JOIN LATERAL (
                SELECT ctid AS place FROM attempts a
                WHERE a.tenant_id = removed.tenant_id AND a.delivery_id = removed.delivery_id LIMIT 32768
            ) AS a
        )) RETURNING attempt
    )
    SELECT (SELECT count(*) FROM oldest), (SELECT delivery_id FROM oldest ORDER BY delivery_id DESC LIMIT 1),
           (SELECT count(*) FROM removed), (SELECT count(*) FROM removed_attempts)";

    const COUNT = concat!("
    -- deliveries.count_expired
    SELECT count(*), coalesce(sum(a.attempts), 0)::bigint
    ", expired!("OFFSET 0"));

    // A replayed delivery expires by its last attempt.
    pub(super) const OLDEST = concat!("
    -- deliveries.oldest_expired
    SELECT min(greatest(d.created_at, a.last))
    ", expired!("LIMIT $3::bigint"));
}

pub(super) async fn step(tx: &Transaction<'_>, cutoff: DateTime<Utc>, from: Position) -> Result<Step, Error> {
    let row = tx.query_one(EXPIRE.as_str(), &[&from.id, &first_id(cutoff), &STEP_ROWS, &cutoff]).await?;
    let (read, last): (i64, Option<Uuid>) = (row.try_get(0)?, row.try_get(1)?);
    let (deliveries, attempts) = (number(row.try_get(2)?), number(row.try_get(3)?));
    Ok(Step {
        removed: vec![(TABLE, deliveries), (ATTEMPTS_TABLE, attempts)],
        next: last.filter(|_| read == STEP_ROWS).map(Position::after_id),
    })
}

pub(super) async fn count_expired(
    client: &Client,
    cutoff: DateTime<Utc>,
) -> Result<Vec<(&'static str, u64)>, Error> {
    let row = client.query_one(COUNT.as_str(), &[&first_id(cutoff), &cutoff]).await?;
    Ok(vec![(TABLE, number(row.try_get(0)?)), (ATTEMPTS_TABLE, number(row.try_get(1)?))])
}
