//! Tables whose rows expire by a time of their own. To add one, add it to [`TABLES`], and an index on its time.

use super::rule::number;
use super::{Position, STEP_ROWS, Step};
use crate::db::Sql;
use crate::settings::{RetentionPeriod, RetentionSettings};
use chrono::{DateTime, Utc};
use std::fmt;
use tokio_postgres::{Client, Error, Transaction};

/// A table and its statements.
pub(super) struct TimedTable {
    pub(super) name: &'static str,
    pub(super) period: fn(&RetentionSettings) -> RetentionPeriod,
    /// Removes at most `$3` of the rows from the time `$2` on and before `$1`, the oldest first. Returns their number and the time of
    /// the last one.
    expire: Sql,
    /// Counts the rows before `$1`.
    count: Sql,
    /// The oldest time before `$1`, or null.
    oldest: Sql,
}

impl fmt::Debug for TimedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A statement that counts the rows of a table before `$1`, by the name of the table and of its time.
macro_rules! count_expired {
    ($name:literal, $time:literal) => {
        Sql::registered(concat!(
            "
    -- ",
            $name,
            ".count_expired
    SELECT count(*) FROM ",
            $name,
            " WHERE ",
            $time,
            " < $1"
        ))
    };
}

/// A statement that finds the oldest time of a table before `$1`, by the name of the table and of its time.
macro_rules! oldest_expired {
    ($name:literal, $time:literal) => {
        Sql::registered(concat!(
            "
    -- ",
            $name,
            ".oldest_expired
    SELECT min(",
            $time,
            ") FROM ",
            $name,
            " WHERE ",
            $time,
            " < $1"
        ))
    };
}

/// A table by its name, the time that its rows expire by, and its setting. The statements stay readable without rustfmt.
#[rustfmt::skip]
macro_rules! timed_table {
    ($name:literal by $time:literal: $setting:ident) => {
        TimedTable {
            name: $name,
            period: |settings| settings.$setting,
            expire: Sql::registered(concat!("
    -- ", $name, ".expire
    WITH removed AS (
        DELETE FROM ", $name, " WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM ", $name, " WHERE ", $time, " >= $2 AND ", $time, " < $1 ORDER BY ", $time, " LIMIT $3::bigint
        )) RETURNING ", $time, " AS expired
    )
    SELECT count(*), max(expired) FROM removed")),
            count: count_expired!($name, $time),
            oldest: oldest_expired!($name, $time),
        }
    };
}

/// All tables, in the order in which they are listed.
pub(super) const TABLES: &[TimedTable] = &[
    timed_table!("idempotency_keys" by "created_at": idempotency),
    timed_table!("notifications" by "at": notifications),
    timed_table!("event_ledger" by "applied_at": ledger),
    timed_table!("api_key_requests" by "hour": refusals),
    // Replay jobs are kept as long as the deliveries that they replayed.
    timed_table!("replay_jobs" by "ended_at": deliveries),
    // Nobody may delete audit records but this function of the schema.
    TimedTable {
        name: "audit_records",
        period: |settings| settings.audit,
        expire: Sql::registered(
            "
    -- audit_records.expire
    SELECT removed, last FROM expire_audit_records($1, $2, $3)",
        ),
        count: count_expired!("audit_records", "at"),
        oldest: oldest_expired!("audit_records", "at"),
    },
];

/// All statements of this module.
pub(super) const STATEMENTS: &[Sql] = &{
    let mut statements = [TABLES[0].count; 3 * TABLES.len()];
    let mut table = 0;
    while table < TABLES.len() {
        statements[3 * table] = TABLES[table].expire;
        statements[3 * table + 1] = TABLES[table].count;
        statements[3 * table + 2] = TABLES[table].oldest;
        table += 1;
    }
    statements
};

pub(super) async fn step(
    tx: &Transaction<'_>,
    table: &TimedTable,
    cutoff: DateTime<Utc>,
    from: Position,
) -> Result<Step, Error> {
    let row = tx.query_one(table.expire.as_str(), &[&cutoff, &from.at, &STEP_ROWS]).await?;
    let (removed, last): (i64, Option<DateTime<Utc>>) = (row.try_get(0)?, row.try_get(1)?);
    // Others may have the time of the last one, so the next step begins with it.
    let next = last.filter(|_| removed == STEP_ROWS).map(Position::from_time);
    Ok(Step { removed: vec![(table.name, number(removed))], next })
}

pub(super) async fn count_expired(
    client: &Client,
    table: &TimedTable,
    cutoff: DateTime<Utc>,
) -> Result<Vec<(&'static str, u64)>, Error> {
    let row = client.query_one(table.count.as_str(), &[&cutoff]).await?;
    Ok(vec![(table.name, number(row.try_get(0)?))])
}

pub(super) async fn oldest_expired(
    tx: &Transaction<'_>,
    table: &TimedTable,
    cutoff: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, Error> {
    tx.query_one(table.oldest.as_str(), &[&cutoff]).await?.try_get(0)
}
