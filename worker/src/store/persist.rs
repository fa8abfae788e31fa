//! Persist: the differences of a unit of work, in one pipelined round.

use super::{
    States, Wanted, clients, company, credits, discoveries, invoices, leads, ledger, rosters, streams, trips,
};
use crate::outbox::Emitted;
use chrono::{DateTime, Utc};
use common::db::TxError;
use deadpool_postgres::Transaction;
use futures_util::future::{BoxFuture, try_join_all};

/// The statements of [`persist`]'s round.
const WRITES: &[&str] = &[
    ledger::INSERT,
    clients::INSERT,
    clients::UPDATE,
    company::UPSERT,
    leads::INSERT,
    leads::UPDATE,
    trips::INSERT,
    trips::UPDATE,
    trips::INSERT_PROPOSALS,
    trips::UPDATE_PROPOSALS,
    trips::INSERT_ITINERARIES,
    invoices::INSERT,
    invoices::UPDATE,
    discoveries::UPSERT,
    discoveries::UPSERT_PROFILES,
    credits::UPSERT,
    streams::TIMELINE,
    streams::INBOX,
    streams::NOTIFICATIONS,
];

/// Writes everything that is new or changed. The statements are sent in this order and applied in it: a record before
/// what refers to it. Marks `emitted` when outbound events are among it.
pub async fn persist(
    tx: &Transaction<'_>,
    states: &States,
    wanted: &Wanted,
    now: DateTime<Utc>,
    emitted: &Emitted,
) -> Result<(), TxError> {
    // All prepared before the first is sent: one that still had to be prepared would be overtaken by the next.
    for sql in WRITES {
        tx.prepare_cached(sql).await?;
    }
    clients::free(tx, states).await?;
    let writes: Vec<BoxFuture<'_, Result<(), TxError>>> = vec![
        // First the ledger: when another unit applied one of the events, nothing else is worth writing.
        Box::pin(ledger::insert(tx, states, now)),
        Box::pin(clients::update(tx, states)),
        Box::pin(clients::insert(tx, states)),
        Box::pin(rosters::replace(tx, states)),
        Box::pin(company::upsert(tx, states)),
        Box::pin(leads::insert(tx, states)),
        Box::pin(leads::update(tx, states)),
        Box::pin(trips::insert(tx, states)),
        Box::pin(trips::update(tx, states)),
        Box::pin(trips::insert_proposals(tx, states)),
        Box::pin(trips::update_proposals(tx, states)),
        Box::pin(trips::insert_itineraries(tx, states)),
        Box::pin(invoices::insert(tx, states)),
        Box::pin(invoices::update(tx, states)),
        Box::pin(discoveries::upsert(tx, states)),
        Box::pin(discoveries::upsert_profiles(tx, states)),
        Box::pin(credits::upsert(tx, states)),
        Box::pin(streams::timeline(tx, states)),
        Box::pin(streams::inbox(tx, states)),
        Box::pin(streams::notifications(tx, states)),
    ];
    try_join_all(writes).await?;
    if states.values().any(|state| !state.outbox.is_empty()) {
        let subscribed = streams::subscribed(tx, wanted).await?;
        if streams::outbox(tx, states, &subscribed, now).await? {
            emitted.mark();
        }
    }
    Ok(())
}
