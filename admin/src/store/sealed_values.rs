//! What all tables with values that are sealed under a master key have in common; their statements are in the modules of the tables.

use super::{Parameters, all};
use crate::Result;
use common::db::Sql;
use common::model::TenantId;
use tokio_postgres::{Client, Transaction};

common::statements! {
    /// The rows of all tables, read by a function of the schema.
    const COUNTS = "-- sealed_values.counts
    SELECT key_id, sealed_values FROM sealed_value_counts() ORDER BY key_id";
}

pub(crate) struct SealedRow {
    pub(crate) tenant: TenantId,
    /// What identifies the row in the tenant.
    pub(crate) name: String,
    pub(crate) values: Vec<SealedValue>,
}

/// A sealed value, and what replaces it.
pub(crate) struct SealedValue {
    /// What the value is bound to.
    pub(crate) binding: String,
    /// As stored; `None` for null.
    pub(crate) was: Option<Vec<u8>>,
    /// What is to be stored; the same as `was` for no change.
    pub(crate) now: Option<Vec<u8>>,
}

impl SealedValue {
    /// A value that is not to be changed.
    pub(crate) fn stored(binding: String, was: Option<Vec<u8>>) -> Self {
        Self { binding, now: was.clone(), was }
    }
}

/// The values of one column, as parameters of a statement.
pub(crate) struct Columns<'a> {
    pub(crate) was: Vec<Option<&'a [u8]>>,
    pub(crate) now: Vec<Option<&'a [u8]>>,
}

impl<'a> Columns<'a> {
    pub(crate) fn of(rows: &'a [SealedRow], column: usize) -> Self {
        let values = || rows.iter().map(|row| row.values.get(column));
        Self {
            was: values().map(|value| value.and_then(|value| value.was.as_deref())).collect(),
            now: values().map(|value| value.and_then(|value| value.now.as_deref())).collect(),
        }
    }
}

/// Runs a statement that returns the number of changed values of each row, and returns their sum.
pub(super) async fn count_rewrapped(tx: &Transaction<'_>, statement: Sql, parameters: Parameters<'_>) -> Result<u64> {
    let changed = all(tx, statement, parameters, |row| Ok(row.try_get::<_, i32>(0)?)).await?;
    Ok(changed.into_iter().map(|count| u64::try_from(count).unwrap_or(0)).sum())
}

/// The number of sealed values by the id of their master key.
pub(crate) async fn counts(client: &Client) -> Result<Vec<(String, u64)>> {
    let read = |row: &tokio_postgres::Row| {
        let count: i64 = row.try_get("sealed_values")?;
        Ok((row.try_get("key_id")?, u64::try_from(count).unwrap_or(0)))
    };
    all(client, COUNTS, &[], read).await
}
