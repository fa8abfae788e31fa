//! Persist: the changes of a unit of work, in one round trip.

use super::{
    States, clients, company, credits, discoveries, invoices, leads, ledger, proposals, rosters, streams, trips,
};
use chrono::{DateTime, Utc};
use common::db::Query;

/// The statements that write all new and changed records, in the order in which they must be sent: a record before the
/// records that refer to it. Tables without changes have no statement.
pub(crate) fn writes(states: &States, now: DateTime<Utc>) -> Vec<Query<'_>> {
    [
        // The ledger comes first: if another unit has applied one of the events, the rest need not be written.
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
