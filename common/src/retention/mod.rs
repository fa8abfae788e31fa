//! Removes rows that have expired, in bounded steps, the oldest first.
//!
//! The worker does this by itself, and `connectctl retention` on demand. A [`Rule`] is a table whose rows expire, with two statements: one
//! reads the next rows in the order of their age and removes those that have expired, the other one says what has expired. Each table has
//! an index in that order, which contains only rows that can expire. A step runs in a transaction of its own, and takes the lock that
//! only one copy at a time can hold.
//!
//! Unfinished deliveries and dead-lettered ones never expire, whatever their age (D31), nor does an event of the outbox as long as
//! one of its deliveries remains: a replay needs its envelope.

mod rules;

use crate::db::Sql;
use crate::settings::{RetentionPeriod, RetentionSettings};
use chrono::{DateTime, Utc};
pub use rules::RULES;
use tokio_postgres::{Error, GenericClient, Transaction};

/// Maximum number of rows that one step reads, without those that are removed with them.
const STEP_ROWS: i64 = 500;

/// The lock that one step holds; an arbitrary number.
const LOCK_KEY: i64 = 0x636f_6e6e_6563_7403;

/// All statements, for the tests that prepare and explain each one against the schema.
pub const STATEMENTS: &[&[Sql]] = &[rules::STATEMENTS];

/// A table whose rows expire.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The tables that it removes rows from: its own, and then those whose rows are removed with them.
    pub tables: &'static [&'static str],
    period: fn(&RetentionSettings) -> RetentionPeriod,
    /// The position before the oldest row.
    start: &'static str,
    /// Reads the `$3` oldest rows after the position `$2`, and removes those that are older than `$1`. Returns how many rows it has read,
    /// the position of the last one, and how many rows it has removed from each table.
    expire: Sql,
    /// Among the `$2` oldest rows, or all without a number: how many rows of each table would be removed now if `$1` is the bound, and the
    /// time of the oldest one.
    due: Sql,
}

/// What a step has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of removed rows of each of the rule's tables.
    pub removed: Vec<u64>,
    /// Where the next step begins; `None` if no row that could have expired is left.
    pub next: Option<Position>,
}

/// The place of a row in the order in which a rule reads its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position(String);

/// What has expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The number of rows of each of the rule's tables.
    pub rows: Vec<u64>,
    /// The time of the oldest row.
    pub oldest: Option<DateTime<Utc>>,
}

impl Rule {
    /// The name of its table.
    pub const fn name(&self) -> &'static str {
        self.tables[0]
    }

    /// How long its rows are kept.
    pub fn period(&self, settings: &RetentionSettings) -> RetentionPeriod {
        (self.period)(settings)
    }

    /// Where the first step begins.
    pub fn start(&self) -> Position {
        Position(self.start.to_owned())
    }

    /// Removes the next rows that are older than `cutoff`, of a bounded number of rows that it reads after `from`. `None`,
    /// without an effect, while another copy holds the lock.
    pub async fn step(
        &self, tx: &Transaction<'_>, cutoff: DateTime<Utc>, from: &Position,
    ) -> Result<Option<Step>, Error> {
        if !tx.query_one(rules::LOCK.as_str(), &[&LOCK_KEY]).await?.try_get::<_, bool>(0)? {
            return Ok(None);
        }
        let row = tx.query_one(self.expire.as_str(), &[&cutoff, &from.0, &STEP_ROWS]).await?;
        let (read, last): (i64, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
        let next = last.filter(|_| read >= STEP_ROWS).map(Position);
        Ok(Some(Step { removed: numbers(row.try_get(2)?), next }))
    }

    /// What steps would remove now, of the `most` oldest rows. Rows that are old and kept all the same count among these.
    pub async fn due(&self, on: &impl GenericClient, cutoff: DateTime<Utc>, most: Option<i64>) -> Result<Due, Error> {
        let row = on.query_one(self.due.as_str(), &[&cutoff, &most]).await?;
        Ok(Due { rows: numbers(row.try_get(0)?), oldest: row.try_get(1)? })
    }
}

fn numbers(counts: Vec<i64>) -> Vec<u64> {
    counts.into_iter().map(|count| u64::try_from(count).unwrap_or_default()).collect()
}
