//! From rows of the database to what is shown.

use crate::arguments::Limit;
use crate::context::Context;
use serde_json::value::RawValue;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// Most rows in a table for people, and in JSON, unless told otherwise.
const TABLE_MAX: u32 = 1_000;
const JSON_MAX: u32 = 100_000;

/// Something that a row holds.
pub(crate) trait FromRow: Sized {
    fn from_row(row: &Row) -> anyhow::Result<Self>;
}

/// All rows of `statement`, in its order.
pub(crate) async fn all<T: FromRow>(
    context: &Context,
    statement: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> anyhow::Result<Vec<T>> {
    context.database.query(statement, parameters).await?.iter().map(T::from_row).collect()
}

/// The row that `statement` finds or changes, if there is one.
pub(crate) async fn one<T: FromRow>(
    context: &Context,
    statement: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> anyhow::Result<Option<T>> {
    context.database.query_opt(statement, parameters).await?.as_ref().map(T::from_row).transpose()
}

/// The newest rows of `statement`, newest last. The statement orders them newest first and has one more parameter
/// than is given here, its limit.
pub(crate) async fn newest<T: FromRow>(
    context: &Context,
    statement: &str,
    parameters: &[&(dyn ToSql + Sync)],
    limit: &Limit,
) -> anyhow::Result<Vec<T>> {
    let limit = limit.rows.unwrap_or(if context.output.is_json() { JSON_MAX } else { TABLE_MAX });
    // One more than is shown tells whether something is left out.
    let fetched = i64::from(limit) + 1;
    let parameters = [parameters, &[&fetched]].concat();
    let mut rows = context.database.query(statement, &parameters).await?;
    if i64::try_from(rows.len())? == fetched {
        rows.pop();
        context.output.warn(&format!("only the newest {limit} are shown; --limit N shows more"));
    }
    rows.iter().rev().map(T::from_row).collect()
}

/// JSON of the database, printed as it is stored.
pub(crate) fn raw(text: Option<String>) -> anyhow::Result<Option<Box<RawValue>>> {
    Ok(text.map(RawValue::from_string).transpose()?)
}

/// The text of stored JSON, for a table.
pub(crate) fn raw_cell(value: Option<&RawValue>) -> Option<String> {
    value.map(|value| value.get().to_owned())
}
