//! Events of the outbox that were relayed and have no deliveries any more.

use super::position::first_id;
use super::rule::number;
use super::{Position, STEP_ROWS, Step};
use chrono::{DateTime, Utc};
use tokio_postgres::{Client, Error, Transaction};
use uuid::Uuid;

pub(super) const TABLE: &str = "outbox";

/// The deliveries `d` of an event `o`. A delivery's id has the first 48 bits of its event's id, which are its time in
/// milliseconds, so that the primary key finds them: it need not contain the event.
macro_rules! deliveries_of_event {
    () => {
        "FROM deliveries d
                WHERE d.tenant_id = o.tenant_id AND d.event_id = o.event_id
                  AND d.delivery_id >= (left(o.event_id::text, 13) || '-0000-0000-000000000000')::uuid
                  AND d.delivery_id <= (left(o.event_id::text, 13) || '-ffff-ffff-ffffffffffff')::uuid"
    };
}

/// The oldest relayed events `o` that have expired. `$limit` follows the order of the events. Deliveries that have expired
/// themselves do not keep their event: they are removed before it.
macro_rules! expired {
    ($limit:literal) => {
        concat!(
            "FROM (SELECT tenant_id, event_id, created_at FROM outbox WHERE relayed_at IS NOT NULL AND event_id < $1
          ORDER BY event_id ",
            $limit,
            ") AS o
    WHERE (SELECT true ",
            deliveries_of_event!(),
            "
                  AND (d.state NOT IN ('delivered', 'dropped')
                       OR (SELECT true FROM attempts a
                           WHERE a.tenant_id = d.tenant_id AND a.delivery_id = d.delivery_id AND a.at >= $2
                           LIMIT 1))
           LIMIT 1) IS NULL"
        )
    };
}

crate::statements! {
    // An event is marked as relayed when the last of its deliveries is recorded, so that none can be added later.
    const EXPIRE = concat!("
    -- outbox.expire
    WITH oldest AS MATERIALIZED (
        SELECT o.place, o.event_id,
               (SELECT true ", deliveries_of_event!(), "
                LIMIT 1) IS NOT NULL AS is_needed
        FROM (SELECT ctid AS place, tenant_id, event_id FROM outbox
              WHERE relayed_at IS NOT NULL AND event_id > $1 AND event_id < $2
              ORDER BY event_id LIMIT $3::bigint) AS o
    ), removed AS (
        DELETE FROM outbox WHERE ctid = ANY(ARRAY(SELECT place FROM oldest WHERE NOT is_needed)) RETURNING event_id
    )
    SELECT (SELECT count(*) FROM oldest), (SELECT event_id FROM oldest ORDER BY event_id DESC LIMIT 1),
           (SELECT count(*) FROM removed)");

    const COUNT = concat!("
    -- outbox.count_expired
    SELECT count(*)
    ", expired!("OFFSET 0"));

    pub(super) const OLDEST = concat!("
    -- outbox.oldest_expired
    SELECT min(o.created_at)
    ", expired!("LIMIT $3::bigint"));
}

pub(super) async fn step(tx: &Transaction<'_>, cutoff: DateTime<Utc>, from: Position) -> Result<Step, Error> {
    let row = tx.query_one(EXPIRE.as_str(), &[&from.id, &first_id(cutoff), &STEP_ROWS]).await?;
    let (read, last): (i64, Option<Uuid>) = (row.try_get(0)?, row.try_get(1)?);
    Ok(Step {
        removed: vec![(TABLE, number(row.try_get(2)?))],
        next: last.filter(|_| read == STEP_ROWS).map(Position::after_id),
    })
}

pub(super) async fn count_expired(
    client: &Client,
    cutoff: DateTime<Utc>,
) -> Result<Vec<(&'static str, u64)>, Error> {
    let row = client.query_one(COUNT.as_str(), &[&first_id(cutoff), &cutoff]).await?;
    Ok(vec![(TABLE, number(row.try_get(0)?))])
}
