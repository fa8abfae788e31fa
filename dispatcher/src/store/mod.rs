//! SQL. One module for each table; statements are set-based and named in their first line. `relayed` and `replay_jobs` also read
//! deliveries; `record` puts statements of several modules together.
//!
//! The dispatcher writes only deliveries, attempts, the outbox's relay marks, and the progress of replay jobs.

mod attempts;
mod deliveries;
mod outbox;
mod record;
mod relayed;
mod replay_jobs;
mod subscriptions;

pub(crate) use attempts::AttemptRow;
pub(crate) use deliveries::{
    DeliveryProgress, DeliveryRow, LaneFilter, ParkedDelivery, count_settled, count_unsettled, load_parked,
    load_progress, rescue, unpark,
};
pub(crate) use outbox::{OutboxBacklog, PendingEvents, load_pending, measure_backlog};
pub(crate) use record::RecordTransaction;
pub(crate) use relayed::{RelayedEvent, RelayedPage, find_existing, load_relayed};
pub(crate) use replay_jobs::{
    HeldReplayJob, OpenReplayJob, ReplayCandidate, end_job, hold_job, load_candidates, load_open_jobs,
    replay_batch,
};
pub(crate) use subscriptions::{Subscriber, Target, load_targets};

use common::db::{Sql, TxError};
use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// All statements, by module, for the tests that prepare and explain each one against the schema. A module that is missing here
/// has a list that nobody uses, which the compiler reports.
pub const STATEMENTS: &[&[Sql]] = &[
    attempts::STATEMENTS,
    deliveries::STATEMENTS,
    outbox::STATEMENTS,
    relayed::STATEMENTS,
    replay_jobs::STATEMENTS,
    subscriptions::STATEMENTS,
];

type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Runs a query, prepared once for each connection.
async fn query(on: &impl GenericClient, sql: Sql, parameters: Parameters<'_>) -> Result<Vec<Row>, TxError> {
    let statement = on.prepare_cached(sql.as_str()).await?;
    Ok(on.query(&statement, parameters).await?)
}

/// Runs a statement, prepared once for each connection; returns the number of affected rows.
async fn execute(on: &impl GenericClient, sql: Sql, parameters: Parameters<'_>) -> Result<u64, TxError> {
    let statement = on.prepare_cached(sql.as_str()).await?;
    Ok(on.execute(&statement, parameters).await?)
}
