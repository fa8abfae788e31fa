//! Refused requests: those that have expired, and of each key those beyond the newest ones.

use super::rule::number;
use super::{Position, STEP_ROWS, Step};
use chrono::{DateTime, TimeDelta, Utc};
use tokio_postgres::{Client, Error, Transaction};

pub(super) const TABLE: &str = "refused_requests";

/// Refused requests of a key that are kept. Until the next pass there may be some more.
const KEPT: i64 = 200;
/// Only keys with refused requests in this time before now are checked for more than that: the passes of the worker follow each
/// other in a minute, so a key without a recent one has no more.
const RECENT: TimeDelta = TimeDelta::days(1);

/// The place of rows beyond the newest ones of each key that has recent rows.
macro_rules! excess {
    ($recent:literal, $kept:literal) => {
        concat!(
            "FROM (SELECT DISTINCT key_prefix FROM refused_requests WHERE at >= ",
            $recent,
            ") AS k
        CROSS JOIN LATERAL (
            SELECT r.ctid AS place FROM refused_requests r
            WHERE r.key_prefix = k.key_prefix AND r.request_id IS NOT NULL
            ORDER BY r.request_id DESC OFFSET ",
            $kept,
            "
        ) AS e"
        )
    };
}

crate::statements! {
    const EXPIRE = concat!("
    -- refused_requests.expire
    WITH removed AS (
        DELETE FROM refused_requests WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM refused_requests WHERE at < $1 ORDER BY at LIMIT $2::bigint
        ) || ARRAY(
            SELECT e.place ", excess!("$3", "$4::bigint"), " LIMIT $2::bigint
        )) RETURNING at
    )
    SELECT count(*) FROM removed");

    const COUNT = concat!("
    -- refused_requests.count_expired
    SELECT count(*) FROM (
        SELECT ctid AS place FROM refused_requests WHERE at < $1
        UNION
        SELECT e.place ", excess!("$2", "$3::bigint"), "
    ) AS expired");

    // Those beyond the newest ones of a key are not late.
    const OLDEST = "
    -- refused_requests.oldest_expired
    SELECT min(at) FROM refused_requests WHERE at < $1";
}

pub(super) async fn step(tx: &Transaction<'_>, cutoff: DateTime<Utc>, from: Position) -> Result<Step, Error> {
    let row = tx.query_one(EXPIRE.as_str(), &[&cutoff, &STEP_ROWS, &recent(cutoff), &KEPT]).await?;
    let removed: i64 = row.try_get(0)?;
    // Rows that are removed are not read again, so each step begins at the same place.
    Ok(Step { removed: vec![(TABLE, number(removed))], next: (removed >= STEP_ROWS).then_some(from) })
}

pub(super) async fn count_expired(
    client: &Client,
    cutoff: DateTime<Utc>,
) -> Result<Vec<(&'static str, u64)>, Error> {
    let row = client.query_one(COUNT.as_str(), &[&cutoff, &recent(cutoff), &KEPT]).await?;
    Ok(vec![(TABLE, number(row.try_get(0)?))])
}

pub(super) async fn oldest_expired(
    tx: &Transaction<'_>,
    cutoff: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, Error> {
    tx.query_one(OLDEST.as_str(), &[&cutoff]).await?.try_get(0)
}

/// Since when rows are recent. Never before the cutoff.
fn recent(cutoff: DateTime<Utc>) -> DateTime<Utc> {
    cutoff.max(crate::clock::now() - RECENT)
}
