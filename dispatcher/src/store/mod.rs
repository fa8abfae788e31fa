//! SQL. A module a table, every statement over whole arrays; each is named in its first line.
//!
//! The dispatcher writes the outbox's marks, deliveries and attempts, and nothing else.

mod attempts;
mod deliveries;
mod outbox;
mod record;
mod subscriptions;

pub use attempts::AttemptRow;
pub use deliveries::{
    Conclusion, Known, Lanes, Parked, State, count_ended, count_open, known, parked, rescue, unpark,
};
pub use outbox::{Pending, Waiting, pending, waiting};
pub use record::Record;
pub use subscriptions::{Subscriber, Target, targets};

use common::db::TxError;
use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// All statements, for the test that prepares each one against the schema.
pub const STATEMENTS: &[&str] = &[
    attempts::INSERT,
    deliveries::CONCLUDE,
    deliveries::ENDED,
    deliveries::KNOWN,
    deliveries::OPEN,
    deliveries::PARKED,
    deliveries::RESCUE,
    deliveries::UNPARK,
    outbox::PENDING,
    outbox::RELAYED,
    outbox::WAITING,
    subscriptions::TARGETS,
];

type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Runs a prepared query, cached by connection.
async fn query(on: &impl GenericClient, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>, TxError> {
    let statement = on.prepare_cached(sql).await?;
    Ok(on.query(&statement, parameters).await?)
}

/// Runs a prepared statement, cached by connection; gives the number of rows it touched.
async fn execute(on: &impl GenericClient, sql: &str, parameters: Parameters<'_>) -> Result<u64, TxError> {
    let statement = on.prepare_cached(sql).await?;
    Ok(on.execute(&statement, parameters).await?)
}

/// The values of one column.
fn column<'r, R, V>(rows: &'r [R], value: impl Fn(&'r R) -> V) -> Vec<V> {
    rows.iter().map(value).collect()
}
