//! The rules: which tables have rows that expire.

use super::position::first_id;
use super::timed::{self, TimedTable};
use super::{LOCK_KEY, Position, SEARCHED_ROWS, deliveries, outbox, refusals};
use crate::db::Sql;
use crate::settings::{RetentionPeriod, RetentionSettings};
use chrono::{DateTime, Utc};
use tokio_postgres::{Client, Error, Transaction};

crate::statements! {
    // Ends with the transaction, so that a killed copy holds it no longer than its connection lives.
    const LOCK = "
    -- retention.lock
    SELECT pg_try_advisory_xact_lock($1)";
}

/// A table whose rows expire, with the rows of other tables that are removed with them.
#[derive(Clone, Copy, Debug)]
pub struct Rule(Kind);

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Settled deliveries with their attempts.
    Deliveries,
    /// Relayed events without deliveries.
    Outbox,
    /// Refused requests, which expire by their number as well.
    Refusals,
    /// Rows that expire by a time of their own.
    Timed(&'static TimedTable),
}

/// What a step has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The removed rows of each table that the rule concerns.
    pub removed: Vec<(&'static str, u64)>,
    /// Where the next step begins; `None` if no row that could have expired is left.
    pub next: Option<Position>,
}

impl Rule {
    /// All rules, in the order in which they are applied: an event of the outbox can be removed after its deliveries.
    pub fn all() -> Vec<Self> {
        let timed = timed::TABLES.iter().map(|table| Self(Kind::Timed(table)));
        [Self(Kind::Deliveries), Self(Kind::Outbox), Self(Kind::Refusals)].into_iter().chain(timed).collect()
    }

    /// The name of its table.
    pub const fn name(&self) -> &'static str {
        match self.0 {
            Kind::Deliveries => deliveries::TABLE,
            Kind::Outbox => outbox::TABLE,
            Kind::Refusals => refusals::TABLE,
            Kind::Timed(table) => table.name,
        }
    }

    /// The tables that it removes rows from.
    pub fn tables(&self) -> Vec<&'static str> {
        match self.0 {
            Kind::Deliveries => vec![deliveries::TABLE, deliveries::ATTEMPTS_TABLE],
            Kind::Outbox | Kind::Refusals | Kind::Timed(_) => vec![self.name()],
        }
    }

    /// How long its rows are kept.
    pub fn period(&self, settings: &RetentionSettings) -> RetentionPeriod {
        match self.0 {
            Kind::Deliveries | Kind::Outbox => settings.deliveries,
            Kind::Refusals => settings.refusals,
            Kind::Timed(table) => (table.period)(settings),
        }
    }

    /// Whether it must wait until the previous rule has no expired rows left. An event whose deliveries still exist is passed over, and
    /// would not be read again before the next pass from the oldest row.
    pub const fn needs_previous_rule_done(&self) -> bool {
        matches!(self.0, Kind::Outbox)
    }

    /// Removes the next rows that are older than `cutoff`, of a bounded number of rows that it reads after `from`. `None`,
    /// without an effect, while another copy holds the lock.
    pub async fn step(
        &self,
        tx: &Transaction<'_>,
        cutoff: DateTime<Utc>,
        from: Position,
    ) -> Result<Option<Step>, Error> {
        if !lock(tx).await? {
            return Ok(None);
        }
        let step = match self.0 {
            Kind::Deliveries => deliveries::step(tx, cutoff, from).await?,
            Kind::Outbox => outbox::step(tx, cutoff, from).await?,
            Kind::Refusals => refusals::step(tx, cutoff, from).await?,
            Kind::Timed(table) => timed::step(tx, table, cutoff, from).await?,
        };
        Ok(Some(step))
    }

    /// The time of the oldest row that steps would remove now, if there is one. It is searched among a bounded number of the oldest
    /// rows, so that rows that are kept longer can hide it.
    pub async fn oldest_expired(
        &self,
        tx: &Transaction<'_>,
        cutoff: DateTime<Utc>,
    ) -> Result<Option<DateTime<Utc>>, Error> {
        match self.0 {
            Kind::Deliveries => oldest_expired_by_id(tx, deliveries::OLDEST, cutoff).await,
            Kind::Outbox => oldest_expired_by_id(tx, outbox::OLDEST, cutoff).await,
            Kind::Refusals => refusals::oldest_expired(tx, cutoff).await,
            Kind::Timed(table) => timed::oldest_expired(tx, table, cutoff).await,
        }
    }

    /// Counts the rows that steps would remove now, for each of [`tables`](Self::tables). Reads all of these rows.
    pub async fn count_expired(
        &self,
        client: &Client,
        cutoff: DateTime<Utc>,
    ) -> Result<Vec<(&'static str, u64)>, Error> {
        match self.0 {
            Kind::Deliveries => deliveries::count_expired(client, cutoff).await,
            Kind::Outbox => outbox::count_expired(client, cutoff).await,
            Kind::Refusals => refusals::count_expired(client, cutoff).await,
            Kind::Timed(table) => timed::count_expired(client, table, cutoff).await,
        }
    }
}

/// Takes the lock that only one copy at a time can hold, until the transaction ends. `false` if another copy holds it.
pub(super) async fn lock(tx: &Transaction<'_>) -> Result<bool, Error> {
    tx.query_one(LOCK.as_str(), &[&LOCK_KEY]).await?.try_get(0)
}

/// The time of the oldest expired row of a table whose rows are found by the time in their ids.
async fn oldest_expired_by_id(
    tx: &Transaction<'_>,
    statement: Sql,
    cutoff: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, Error> {
    tx.query_one(statement.as_str(), &[&first_id(cutoff), &cutoff, &SEARCHED_ROWS]).await?.try_get(0)
}

/// A count of the database.
pub(super) fn number(count: i64) -> u64 {
    u64::try_from(count).unwrap_or_default()
}
