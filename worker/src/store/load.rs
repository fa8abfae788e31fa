//! Load: everything that a unit of work may read or change, in one round trip. Each statement finds its rows by the keys that
//! the unit names, so none waits for the rows of another.

use super::{
    ErasedIdentities, LoadRequest, States, TenantErasures, clients, company, credits, discoveries, erased_identities,
    invoices, leads, ledger, locks, rosters, tenants,
};
use common::db::{Query, TxError};
use common::model::{ClientId, TenantId};
use foldhash::{HashSet, HashSetExt};
use tokio_postgres::Row;

/// Which existing clients a unit locks. Identities without a client are locked in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locking {
    /// The related clients. Other clients are updated only if their version is unchanged.
    Related,
    /// All identities and clients: the unit runs again after a conflict with another one.
    Everything,
}

/// The purpose of a statement of the round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoadStep {
    Claims,
    Erased,
    Locks,
    LockedClients,
    Invoices,
    Tenants,
    Members,
    Ledger,
    Clients,
    Accounts,
    MovedContacts,
    Leads,
    Discoveries,
    Profiles,
    Credits,
    Rosters,
}

/// The statements of the first round trip.
#[derive(Debug)]
pub(crate) struct Load {
    steps: Vec<LoadStep>,
    queries: Vec<Query<'static>>,
}

/// The result of a [`Load`].
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The states of the unit's tenants.
    pub(crate) states: States,
    /// The clients that are locked until the transaction ends.
    pub(crate) locked: HashSet<(TenantId, ClientId)>,
    /// The last erasure of each tenant of the unit that has erased people, and the key of the hashes.
    pub(crate) tenant_erasures: Vec<(TenantId, TenantErasures)>,
    /// Of the identities that were looked up, those that belonged to people who were erased.
    pub(crate) erased_identities: ErasedIdentities,
    /// The rows of the statements that claim what the unit needs, in their order.
    pub(crate) claims: Vec<Vec<Row>>,
}

impl Load {
    /// The statements for a request. The tenants come first, with the lock that excludes erasures, then the unit's `claims`,
    /// and then the other locks, because rows must be read while the locks are held. Lock order of all units: tenants by
    /// id, other advisory locks, clients by id, invoices by reference.
    ///
    /// `erased` looks up which identities belonged to people who were erased.
    pub(crate) fn new(
        request: &LoadRequest, locking: Locking, claims: Vec<Query<'static>>, erased: Option<Query<'static>>,
    ) -> Self {
        let mut load = Self { steps: Vec::with_capacity(12), queries: Vec::with_capacity(12) };
        load.add(LoadStep::Tenants, Some(tenants::load(request)));
        load.add(LoadStep::Erased, erased);
        claims.into_iter().for_each(|query| load.add(LoadStep::Claims, Some(query)));
        load.add(LoadStep::Locks, locks::take(request, locking));
        load.add(LoadStep::LockedClients, clients::lock(request, locking));
        load.add(LoadStep::Invoices, invoices::load(request));
        load.add(LoadStep::Members, tenants::load_members(request));
        load.add(LoadStep::Ledger, Some(ledger::load(request)));
        load.add(LoadStep::Clients, clients::load(request));
        load.add(LoadStep::Clients, clients::load_named(request));
        load.add(LoadStep::Accounts, company::load(request));
        load.add(LoadStep::MovedContacts, company::load_moved(request));
        load.add(LoadStep::Leads, leads::load(request));
        load.add(LoadStep::Discoveries, discoveries::load_named(request));
        load.add(LoadStep::Profiles, discoveries::load_profiles(request));
        load.add(LoadStep::Credits, credits::load(request));
        load.add(LoadStep::Rosters, rosters::load(request));
        load
    }

    fn add(&mut self, step: LoadStep, query: Option<Query<'static>>) {
        if let Some(query) = query {
            self.steps.push(step);
            self.queries.push(query);
        }
    }

    /// The statements, in the order in which they must be sent.
    pub(crate) fn queries(&self) -> &[Query<'static>] {
        &self.queries
    }

    /// Builds the states from the rows of each statement.
    pub(crate) fn into_loaded(self, rows: Vec<Vec<Row>>) -> Result<Loaded, TxError> {
        let tenants = self.steps.iter().position(|step| *step == LoadStep::Tenants);
        let states = tenants.map(|at| tenants::states(&rows[at])).unwrap_or_default();
        let tenant_erasures = tenants.map(|at| tenants::erasures(&rows[at])).unwrap_or_default();
        let mut loaded = Loaded {
            states,
            locked: HashSet::new(),
            tenant_erasures,
            erased_identities: ErasedIdentities::new(),
            claims: Vec::new(),
        };
        for (step, rows) in self.steps.into_iter().zip(rows) {
            loaded.fill(step, rows)?;
        }
        Ok(loaded)
    }
}

impl Loaded {
    fn fill(&mut self, step: LoadStep, rows: Vec<Row>) -> Result<(), TxError> {
        let states = &mut self.states;
        match step {
            LoadStep::Claims => self.claims.push(rows),
            LoadStep::Erased => self.erased_identities = erased_identities::erased(&rows),
            LoadStep::Locks | LoadStep::Tenants => {}
            LoadStep::LockedClients => self.locked = clients::locked(&rows),
            LoadStep::Invoices => invoices::fill(states, &rows)?,
            LoadStep::Members => tenants::fill_members(states, &rows),
            LoadStep::Ledger => ledger::fill(states, &rows),
            LoadStep::Clients => clients::fill(states, &rows)?,
            LoadStep::Accounts => company::fill(states, &rows)?,
            LoadStep::MovedContacts => company::fill_moved(states, &rows)?,
            LoadStep::Leads => leads::fill(states, &rows)?,
            LoadStep::Discoveries => discoveries::fill_named(states, &rows)?,
            LoadStep::Profiles => discoveries::fill_profiles(states, &rows)?,
            LoadStep::Credits => credits::fill(states, &rows),
            LoadStep::Rosters => rosters::fill(states, &rows),
        }
        Ok(())
    }
}
