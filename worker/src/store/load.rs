//! Load: everything that a unit of work can touch, in one flight. Each statement finds its rows from the keys that the
//! unit names, and none waits for the rows of another.

use super::{
    LoadRequest, States, clients, company, credits, discoveries, invoices, leads, ledger, locks, rosters,
    tenants,
};
use chrono::{DateTime, Utc};
use common::db::{Query, TxError};
use common::model::{ClientId, TenantId};
use std::collections::HashSet;
use tokio_postgres::Row;

/// What a unit locks besides the identities of people who do not exist yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locking {
    /// The related clients. The others are written only if they are as they were read.
    Related,
    /// All identities and clients: the unit has been in conflict with another one before.
    Everything,
}

/// What a statement of the flight loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Own,
    Locks,
    LockedClients,
    Invoices,
    Tenants,
    Members,
    Ledger,
    Clients,
    Accounts,
    MovedEntries,
    Leads,
    Discoveries,
    Profiles,
    Credits,
    Rosters,
}

/// The statements of a flight.
#[derive(Debug)]
pub(crate) struct Load {
    parts: Vec<Part>,
    queries: Vec<Query<'static>>,
}

/// What was loaded.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The states of the unit's tenants.
    pub(crate) states: States,
    /// The server's time at the load; `None` when no tenant was found.
    pub(crate) server_time: Option<DateTime<Utc>>,
    /// The clients that are locked until the transaction ends.
    pub(crate) locked: HashSet<(TenantId, ClientId)>,
    /// The rows of the unit's own statements, in their order.
    pub(crate) own: Vec<Vec<Row>>,
}

impl Load {
    /// The statements for a request, behind the unit's `own`. Locks come first: what is read must be read after they are
    /// held. In this order all units take them: advisory locks, clients by id, invoices by reference.
    pub(crate) fn new(request: &LoadRequest, locking: Locking, own: Vec<Query<'static>>) -> Self {
        let mut load = Self { parts: Vec::with_capacity(12), queries: Vec::with_capacity(12) };
        own.into_iter().for_each(|query| load.add(Part::Own, Some(query)));
        load.add(Part::Locks, locks::take(request, locking));
        load.add(Part::LockedClients, clients::lock(request, locking));
        load.add(Part::Invoices, invoices::load(request));
        load.add(Part::Tenants, Some(tenants::load(request)));
        load.add(Part::Members, tenants::load_members(request));
        load.add(Part::Ledger, Some(ledger::load(request)));
        load.add(Part::Clients, clients::load(request));
        load.add(Part::Clients, clients::load_named(request));
        load.add(Part::Accounts, company::load(request));
        load.add(Part::MovedEntries, company::load_moved(request));
        load.add(Part::Leads, leads::load(request));
        load.add(Part::Discoveries, discoveries::load_named(request));
        load.add(Part::Profiles, discoveries::load_profiles(request));
        load.add(Part::Credits, credits::load(request));
        load.add(Part::Rosters, rosters::load(request));
        load
    }

    fn add(&mut self, part: Part, query: Option<Query<'static>>) {
        if let Some(query) = query {
            self.parts.push(part);
            self.queries.push(query);
        }
    }

    /// The statements, in the order in which they must be sent.
    pub(crate) fn queries(&self) -> &[Query<'static>] {
        &self.queries
    }

    /// Takes in the rows of each statement.
    pub(crate) fn read(self, rows: Vec<Vec<Row>>) -> Result<Loaded, TxError> {
        let tenants = self.parts.iter().position(|part| *part == Part::Tenants);
        let states = tenants.map(|at| tenants::states(&rows[at])).unwrap_or_default();
        let server_time = tenants.and_then(|at| tenants::server_time(&rows[at]));
        let mut loaded = Loaded { states, server_time, locked: HashSet::new(), own: Vec::new() };
        for (part, rows) in self.parts.into_iter().zip(rows) {
            loaded.fill(part, rows)?;
        }
        Ok(loaded)
    }
}

impl Loaded {
    fn fill(&mut self, part: Part, rows: Vec<Row>) -> Result<(), TxError> {
        let states = &mut self.states;
        match part {
            Part::Own => self.own.push(rows),
            Part::Locks | Part::Tenants => {}
            Part::LockedClients => self.locked = clients::locked(&rows),
            Part::Invoices => invoices::fill(states, &rows)?,
            Part::Members => tenants::fill_members(states, &rows),
            Part::Ledger => ledger::fill(states, &rows),
            Part::Clients => clients::fill(states, &rows)?,
            Part::Accounts => company::fill(states, &rows)?,
            Part::MovedEntries => company::fill_moved(states, &rows)?,
            Part::Leads => leads::fill(states, &rows)?,
            Part::Discoveries => discoveries::fill_named(states, &rows)?,
            Part::Profiles => discoveries::fill_profiles(states, &rows)?,
            Part::Credits => credits::fill(states, &rows),
            Part::Rosters => rosters::fill(states, &rows),
        }
        Ok(())
    }
}
