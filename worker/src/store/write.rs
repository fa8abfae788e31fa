//! Persist: the differences of a unit of work, in one flight.

use super::{
    States, clients, company, credits, discoveries, invoices, leads, ledger, proposals, rosters, streams,
    trips,
};
use chrono::{DateTime, Utc};
use common::db::Query;

/// The statements that write everything that is new or changed, in the order in which they must be sent: a record before
/// what refers to it. None for a table of which nothing has changed.
pub(crate) fn writes(states: &States, now: DateTime<Utc>) -> Vec<Query<'_>> {
    [
        // The ledger comes first: when another unit has applied one of the events, nothing else is worth writing.
        ledger::insert(states, now),
        clients::free(states),
        clients::update(states),
        clients::insert(states),
        rosters::delete(states),
        rosters::insert(states),
        company::update(states),
        company::insert(states),
        leads::insert(states),
        leads::update(states),
        trips::insert(states),
        trips::update(states),
        proposals::insert(states),
        proposals::update(states),
        proposals::insert_itineraries(states),
        invoices::insert(states),
        invoices::update(states),
        discoveries::upsert(states),
        discoveries::upsert_profiles(states),
        credits::upsert(states),
        streams::timeline(states),
        streams::inbox(states),
        streams::notifications(states),
        streams::outbox(states, now),
    ]
    .into_iter()
    .flatten()
    .collect()
}
