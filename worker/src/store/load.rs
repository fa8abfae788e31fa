//! Load: all that a unit of work can touch, in four rounds of pipelined queries.

use super::{
    States, Wanted, clients, company, credits, discoveries, invoices, leads, ledger, locks, rosters, tenants,
    trips,
};
use common::db::TxError;
use deadpool_postgres::Transaction;
use futures_util::future::{try_join, try_join4};
use uuid::Uuid;

/// Locks the unit's identities and loads what its events can touch.
pub async fn load(tx: &Transaction<'_>, wanted: &Wanted) -> Result<States, TxError> {
    // In a round of its own: what is read must be read after the locks are held.
    let ((), mut states) = try_join(locks::take(tx, wanted), tenants::load(tx, wanted)).await?;
    let (applied, found, accounts, booked) = try_join4(
        ledger::load(tx, wanted),
        clients::load(tx, wanted),
        company::load_accounts(tx, wanted),
        invoices::load(tx, wanted),
    )
    .await?;
    ledger::fill(&mut states, &applied);
    clients::fill(&mut states, &found)?;
    company::fill_accounts(&mut states, &accounts);
    invoices::fill(&mut states, &booked)?;
    let (entries, enquiries) =
        try_join(company::load(tx, &states, wanted), leads::load(tx, &states, wanted)).await?;
    company::fill(&mut states, &entries)?;
    leads::fill(&mut states, &enquiries)?;
    load_of_clients(tx, &mut states, wanted).await?;
    Ok(states)
}

/// What hangs on the clients and enquiries that were found.
async fn load_of_clients(tx: &Transaction<'_>, states: &mut States, wanted: &Wanted) -> Result<(), TxError> {
    let (proposals, travelers) =
        try_join(trips::load_proposals(tx, states, wanted), rosters::load(tx, states, wanted)).await?;
    trips::fill_proposals(states, &proposals)?;
    rosters::fill(states, &travelers);
    let (opened, records, profiles, credit) = try_join4(
        trips::load(tx, states),
        discoveries::load(tx, states, wanted),
        discoveries::load_profiles(tx, states, wanted),
        credits::load(tx, states, wanted),
    )
    .await?;
    trips::fill(states, &opened)?;
    discoveries::fill(states, &records)?;
    discoveries::fill_profiles(states, &profiles)?;
    credits::fill(states, &credit);
    Ok(())
}

/// The clients that are loaded, pairwise with their agency.
pub(super) fn clients_of(states: &States) -> (Vec<Uuid>, Vec<Uuid>) {
    states
        .iter()
        .flat_map(|(tenant, state)| state.client_ids().into_iter().map(|id| (tenant.0, id.0)))
        .unzip()
}

/// The enquiries that are loaded, pairwise with their agency.
pub(super) fn leads_of(states: &States) -> (Vec<Uuid>, Vec<Uuid>) {
    states.iter().flat_map(|(tenant, state)| state.leads.keys().map(|id| (tenant.0, id.0))).unzip()
}
