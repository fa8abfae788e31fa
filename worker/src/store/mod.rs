//! SQL. A module a table; what a unit of work may touch is read and written in set-based statements, a fixed
//! handful whatever the unit's size. Each statement is named in its first line.

mod clients;
mod company;
mod counters;
mod credits;
mod discoveries;
mod idempotency;
mod invoices;
mod leads;
mod ledger;
mod load;
mod locks;
mod persist;
mod rosters;
mod streams;
mod tenants;
mod trips;
mod usage;
mod wanted;

pub use counters::{Reservation, reserve_numbers};
pub use idempotency::{Known, claim, keep};
pub use invoices::client_of as client_of_booking;
pub use ledger::applied;
pub use load::load;
pub use persist::persist;
pub use tenants::find as find_tenant;
pub use usage::{count, until_next_month};
pub use wanted::{Keys, Wanted};

use common::db::TxError;
use common::model::TenantId;
use deadpool_postgres::Transaction;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// The states of a unit of work, by agency: in that order they are written.
pub type States = std::collections::BTreeMap<TenantId, crate::state::TenantState>;

/// All statements, for the test that prepares each one against the schema.
pub const STATEMENTS: &[&str] = &[
    clients::FREE,
    clients::INSERT,
    clients::LOAD,
    clients::UPDATE,
    company::LOAD,
    company::LOAD_ACCOUNTS,
    company::UPSERT,
    counters::RESERVE,
    credits::LOAD,
    credits::UPSERT,
    discoveries::LOAD,
    discoveries::LOAD_PROFILES,
    discoveries::UPSERT,
    discoveries::UPSERT_PROFILES,
    idempotency::FIND,
    idempotency::INSERT,
    invoices::CLIENT,
    invoices::INSERT,
    invoices::LOAD,
    invoices::UPDATE,
    leads::INSERT,
    leads::LOAD,
    leads::UPDATE,
    ledger::INSERT,
    ledger::LOAD,
    locks::LOCK,
    rosters::DELETE,
    rosters::INSERT,
    rosters::LOAD,
    streams::INBOX,
    streams::NOTIFICATIONS,
    streams::OUTBOX,
    streams::SUBSCRIBED,
    streams::TIMELINE,
    tenants::FIND,
    tenants::LOAD,
    tenants::LOAD_MEMBERS,
    trips::INSERT,
    trips::INSERT_ITINERARIES,
    trips::INSERT_PROPOSALS,
    trips::LOAD,
    trips::LOAD_PROPOSALS,
    trips::UPDATE,
    trips::UPDATE_PROPOSALS,
    usage::COUNT,
];

/// Runs a prepared query, cached by connection.
async fn query(
    tx: &Transaction<'_>,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, TxError> {
    let statement = tx.prepare_cached(sql).await?;
    Ok(tx.query(&statement, parameters).await?)
}

/// Runs a prepared statement, cached by connection.
async fn execute(tx: &Transaction<'_>, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<(), TxError> {
    let statement = tx.prepare_cached(sql).await?;
    tx.execute(&statement, parameters).await?;
    Ok(())
}

/// Writes `rows` with one statement that takes an array for each column, then the values given after them. Does
/// nothing without rows.
macro_rules! write_rows {
    ($tx:expr, $sql:expr, $rows:expr, |$row:ident| [$($column:expr),+ $(,)?] $(, $value:expr)*) => {{
        let rows = &$rows;
        if rows.is_empty() {
            Ok(())
        } else {
            $crate::store::execute(
                $tx,
                $sql,
                &[
                    $(&rows.iter().map(|$row| $column).collect::<Vec<_>>() as &(dyn tokio_postgres::types::ToSql + Sync),)+
                    $(&$value,)*
                ],
            )
            .await
        }
    }};
}
use write_rows;

/// A stored value that the program can't read: written by a newer release, or by hand.
fn unreadable(what: &str) -> TxError {
    TxError::Abandoned(format!("stored {what} can't be read"))
}

/// A record with its agency.
struct Owned<'s, R> {
    tenant: uuid::Uuid,
    record: &'s R,
}

impl<R> std::ops::Deref for Owned<'_, R> {
    type Target = R;
    fn deref(&self) -> &R {
        self.record
    }
}

/// The records of one kind in all states.
fn rows<'s, R: 's, I: Iterator<Item = &'s R>>(
    states: &'s States,
    of: impl Fn(&'s crate::state::TenantState) -> I,
) -> Vec<Owned<'s, R>> {
    states
        .iter()
        .flat_map(|(tenant, state)| of(state).map(|record| Owned { tenant: tenant.0, record }))
        .collect()
}

/// A record of our own as JSON text.
fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("our records have string keys")
}
