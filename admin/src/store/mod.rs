//! SQL of the operators' commands, and the rows that it reads. Each statement is named in its first line. Nothing here knows the
//! operations.
//!
//! These serve one operation on several tables: `activity` and `attention` (the overviews), `found` (finding an event or record by an
//! id), `people` and `person_tables` (exporting and erasing a person), `erasures` (the receipt, its key and hashes), `sealed_values`
//! (rewrapping). The table `deliveries` has two modules: `deliveries` lists and shows, `delivery_changes` replays and drops;
//! `replay_jobs` counts those of a job.
//!
//! A statement finds its rows by an index, whatever the planner knows of the tables, except those that list or count the
//! rows of all tenants.

pub(crate) mod activity;
pub(crate) mod api_keys;
pub(crate) mod attention;
pub(crate) mod audit_records;
pub(crate) mod console;
pub(crate) mod deliveries;
pub(crate) mod delivery_changes;
pub(crate) mod erasures;
pub(crate) mod found;
pub(crate) mod outbox;
pub(crate) mod people;
pub(crate) mod person_tables;
pub(crate) mod records;
pub(crate) mod refused_requests;
pub(crate) mod replay_jobs;
pub(crate) mod roles;
pub(crate) mod sealed_values;
pub(crate) mod streams;
pub(crate) mod subscriptions;
pub(crate) mod tenants;

use crate::{AdminError, Result};
use common::db::Sql;
use serde_json::value::RawValue;
use tokio_postgres::types::ToSql;
use tokio_postgres::{GenericClient, Row};

/// All statements, by module, for the tests that prepare and explain each one against the schema. A module that is missing here
/// has a list that nobody uses, which the compiler reports.
pub const STATEMENTS: &[&[Sql]] = &[
    activity::STATEMENTS,
    api_keys::STATEMENTS,
    attention::STATEMENTS,
    audit_records::STATEMENTS,
    console::STATEMENTS,
    deliveries::STATEMENTS,
    delivery_changes::STATEMENTS,
    erasures::STATEMENTS,
    found::STATEMENTS,
    outbox::STATEMENTS,
    people::STATEMENTS,
    person_tables::STATEMENTS,
    refused_requests::STATEMENTS,
    records::STATEMENTS,
    replay_jobs::STATEMENTS,
    roles::STATEMENTS,
    sealed_values::STATEMENTS,
    streams::STATEMENTS,
    subscriptions::STATEMENTS,
    tenants::STATEMENTS,
];

/// The statements that export and erase people, which only `connectctl` runs.
pub const PERSONAL_DATA_STATEMENTS: &[&[Sql]] = &[erasures::STATEMENTS, people::STATEMENTS, person_tables::STATEMENTS];

/// The newest items of a list, newest last.
#[derive(Debug)]
pub struct Newest<T> {
    /// At most as many as were asked for.
    pub items: Vec<T>,
    /// Whether there are older ones, which were left out.
    pub is_cut: bool,
}

type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// All rows of `statement`, in its order.
async fn all<T>(
    on: &impl GenericClient, statement: Sql, parameters: Parameters<'_>, read: impl Fn(&Row) -> Result<T>,
) -> Result<Vec<T>> {
    on.query(statement.as_str(), parameters).await?.iter().map(read).collect()
}

/// The row that `statement` finds or changes, if there is one.
async fn one<T>(
    on: &impl GenericClient, statement: Sql, parameters: Parameters<'_>, read: impl Fn(&Row) -> Result<T>,
) -> Result<Option<T>> {
    on.query_opt(statement.as_str(), parameters).await?.as_ref().map(read).transpose()
}

/// The row of `statement`, which always has one.
async fn exactly_one(on: &impl GenericClient, statement: Sql, parameters: Parameters<'_>) -> Result<Row> {
    Ok(on.query_one(statement.as_str(), parameters).await?)
}

/// The number of rows that `statement` changes.
async fn execute(on: &impl GenericClient, statement: Sql, parameters: Parameters<'_>) -> Result<u64> {
    Ok(on.execute(statement.as_str(), parameters).await?)
}

/// Whether `statement` finds a row.
async fn exists(on: &impl GenericClient, statement: Sql, parameters: Parameters<'_>) -> Result<bool> {
    Ok(on.query_opt(statement.as_str(), parameters).await?.is_some())
}

/// At most `limit` rows of `statement`, which orders them newest first and has one more parameter than is given here, its
/// limit.
async fn newest<T>(
    on: &impl GenericClient, statement: Sql, parameters: Parameters<'_>, limit: u32, read: impl Fn(&Row) -> Result<T>,
) -> Result<Newest<T>> {
    // One row more than is returned tells whether rows are left out.
    let fetched = i64::from(limit) + 1;
    let parameters = [parameters, &[&fetched]].concat();
    let mut rows = on.query(statement.as_str(), &parameters).await?;
    let is_cut = rows.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    if is_cut {
        rows.pop();
    }
    Ok(Newest { items: rows.iter().rev().map(read).collect::<Result<_, _>>()?, is_cut })
}

/// Makes a struct of a row: each field from the column of its name, from another one (`id = "job_id"`, in a new type with
/// `as TenantId`), or with a value (`state: state(row)?`).
macro_rules! read_row {
    ($row:ident => $type:ident { $($field:ident $(= $column:literal)? $(as $new:ident)? $(: $value:expr)?),+ }) => {
        $type { $($field: read_row!(@ $row $field $(= $column)? $(as $new)? $(: $value)?)),+ }
    };
    (@ $row:ident $field:ident) => { $row.try_get(stringify!($field))? };
    (@ $row:ident $field:ident = $column:literal) => { $row.try_get($column)? };
    (@ $row:ident $field:ident = $column:literal as $new:ident) => { $new($row.try_get($column)?) };
    (@ $row:ident $field:ident : $value:expr) => { $value };
}
use read_row;

/// JSON of the database, as it is stored.
fn raw_json(text: Option<String>) -> Result<Option<Box<RawValue>>> {
    let parsed = text.map(RawValue::from_string).transpose();
    parsed.map_err(|error| AdminError::Unreadable(error.to_string()))
}
