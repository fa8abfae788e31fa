//! SQL of the worker. A module for each table: it builds the statements that load and write the records of a unit of
//! work, and adds loaded rows to the states. It sends nothing itself; the pipeline does.
//!
//! Those of `advisor_actions` are no part of a unit, except for the claim and the removal of the action that it applies.
//!
//! These are not for one table: `named_clients` (the clients that a unit names, with which other statements begin),
//! `streams` (timeline, inbox, notifications and outbox, to which a unit only appends), `discoveries` (with profiles), `proposals` (with
//! itineraries), `tenants` (with members), `locks` (advisory locks).
//!
//! Statements are set-based: their number does not depend on the unit's size. Each is named in its first line.
//! Every look-up has one index that can serve it (see `sql/README.md`) and stands in a LATERAL subquery with a LIMIT,
//! so that no plan can read a table whole.

mod advisor_actions;
mod clients;
mod company;
mod counters;
mod credits;
mod discoveries;
mod erased_identities;
mod idempotency;
mod invoices;
mod leads;
mod ledger;
mod load;
mod locks;
mod named_clients;
mod proposals;
mod related_people;
mod request;
mod rosters;
mod sealed_values;
mod streams;
mod tenants;
mod trips;
mod usage;
mod write;

pub(crate) use advisor_actions::{
    StoredAction, TENANTS as TENANTS_OF_TURN, add_actions, claim_action, count_actions, count_attempt, drop_action,
    next_actions, remove_action,
};
pub(crate) use counters::reserve_numbers;
pub(crate) use erased_identities::{ErasedIdentities, load as load_erased_identities};
pub(crate) use idempotency::{
    IdempotencyClaim, IdempotencyKey, StoredResponse, StoredResponses, claim_keys, store_responses,
};
pub(crate) use leads::ENQUIRY_NUMBER_KEY;
pub(crate) use load::{Load, Loaded, Locking};
pub(crate) use related_people::locks_its_client;
pub(crate) use request::{ClientReferences, LoadRequest, WantedIdentities};
pub(crate) use sealed_values::count_sealed_values;
pub(crate) use tenants::{TenantErasures, find_tenant};
pub(crate) use usage::{DEADLINE_PASSED, QUOTA_USED_UP, count_writes, until_next_month};
pub(crate) use write::writes;

use common::db::{Sql, TxError};
use common::model::{Email, TenantId};
use named_clients::{bind_found, found};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use uuid::Uuid;

/// The states of a unit of work by tenant, which is the order in which they are written.
pub(crate) type States = std::collections::BTreeMap<TenantId, crate::state::TenantState>;

/// All statements, by module, for the tests that prepare and explain each one against the schema. A module that is missing here
/// has a list that nobody uses, which the compiler reports.
pub const STATEMENTS: &[&[Sql]] = &[
    advisor_actions::STATEMENTS,
    clients::STATEMENTS,
    company::STATEMENTS,
    counters::STATEMENTS,
    credits::STATEMENTS,
    discoveries::STATEMENTS,
    erased_identities::STATEMENTS,
    idempotency::STATEMENTS,
    invoices::STATEMENTS,
    leads::STATEMENTS,
    ledger::STATEMENTS,
    locks::STATEMENTS,
    proposals::STATEMENTS,
    rosters::STATEMENTS,
    sealed_values::STATEMENTS,
    streams::STATEMENTS,
    tenants::STATEMENTS,
    trips::STATEMENTS,
    usage::STATEMENTS,
];

/// Builds a statement over `rows`, pairs of a tenant and a record. It binds an array for each column, then the single
/// values. `None` if there are no rows.
macro_rules! write_rows {
    ($sql:expr, $rows:expr, |$tenant:ident, $row:ident| [$($column:expr),+ $(,)?] $(, $value:expr)*) => {{
        let rows = $rows;
        (!rows.is_empty()).then(|| {
            common::db::Query::new($sql)
                $(.bind_column(&rows, |&($tenant, $row)| {
                    // Each column uses one of the two.
                    let _ = ($tenant, $row);
                    $column
                }))+
                $(.bind($value))*
        })
    }};
}
use write_rows;

/// Reads the columns of a row in their order.
struct Columns<'r> {
    row: &'r Row,
    next: usize,
}

impl<'r> Columns<'r> {
    const fn of(row: &'r Row) -> Self {
        Self { row, next: 0 }
    }

    /// Reads the next column; panics if its type differs.
    fn take<T: FromSql<'r>>(&mut self) -> T {
        let column = self.next;
        self.next += 1;
        self.row.get(column)
    }

    /// Reads an email and the form of it that is compared.
    fn take_email(&mut self) -> Result<Option<Email>, TxError> {
        match (self.take::<Option<String>>(), self.take::<Option<String>>()) {
            (Some(sent), Some(key)) => Ok(Some(Email::stored(sent, key))),
            (None, None) => Ok(None),
            (Some(_), None) | (None, Some(_)) => Err(unreadable("email")),
        }
    }

    /// Skips the columns of a record that an outer join did not find.
    const fn skip(&mut self, columns: usize) {
        self.next += columns;
    }
}

/// The error of a stored value that this release cannot parse: it was written by a newer release, or by hand.
fn unreadable(what: &str) -> TxError {
    TxError::Abandoned(format!("the stored {what} cannot be read"))
}

/// The records of one type in all states, each with its tenant.
fn rows<'s, R: 's, I: Iterator<Item = R>>(
    states: &'s States, of: impl Fn(&'s crate::state::TenantState) -> I,
) -> Vec<(Uuid, R)> {
    let of_tenant = |(tenant, state): (&TenantId, &'s crate::state::TenantState)| {
        let tenant = tenant.0;
        of(state).map(move |record| (tenant, record)).collect::<Vec<_>>()
    };
    states.iter().flat_map(of_tenant).collect()
}

/// The JSON text of one of our own types.
fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("our records have string keys")
}
