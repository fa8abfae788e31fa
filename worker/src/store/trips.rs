//! Trip workspaces, their proposals, and the itineraries these hold.

use super::{States, Wanted, query, unreadable, write_rows};
use crate::state::{Proposal, ProposalStatus, RowState, Trip};
use common::db::TxError;
use common::model::{LeadId, ProposalId, TenantId, TripId};
use deadpool_postgres::Transaction;
use tokio_postgres::Row;

pub(super) const LOAD: &str = "
    -- trips.load
    SELECT tenant_id, trip_id, lead_id, title, brief::text, created_at, updated_at
    FROM trips JOIN unnest($1::uuid[], $2::uuid[]) AS wanted (tenant_id, lead_id) USING (tenant_id, lead_id)";

pub(super) const INSERT: &str = "
    -- trips.insert
    INSERT INTO trips (tenant_id, trip_id, lead_id, title, brief, created_at, updated_at)
    SELECT tenant_id, trip_id, lead_id, title, brief::json, created_at, updated_at
    FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[])
         AS new (tenant_id, trip_id, lead_id, title, brief, created_at, updated_at)";

pub(super) const UPDATE: &str = "
    -- trips.update
    UPDATE trips t SET title = n.title, brief = n.brief::json, updated_at = n.updated_at
    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::timestamptz[])
         AS n (tenant_id, trip_id, title, brief, updated_at)
    WHERE t.tenant_id = n.tenant_id AND t.trip_id = n.trip_id";

// A proposal opens as a draft that nothing is known of.
pub(super) const INSERT_PROPOSALS: &str = "
    -- proposals.insert
    INSERT INTO proposals (tenant_id, proposal_id, trip_id, status, created_at)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::timestamptz[])";

pub(super) const UPDATE_PROPOSALS: &str = "
    -- proposals.update
    UPDATE proposals p
    SET status = n.status, title = n.title, url = n.url, channel = n.channel, sent_at = n.sent_at,
        viewed_at = n.viewed_at
    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[],
                $8::timestamptz[])
         AS n (tenant_id, proposal_id, status, title, url, channel, sent_at, viewed_at)
    WHERE p.tenant_id = n.tenant_id AND p.proposal_id = n.proposal_id";

pub(super) const INSERT_ITINERARIES: &str = "
    -- itineraries.insert
    INSERT INTO itineraries (tenant_id, proposal_id, snapshot, updated_at)
    SELECT tenant_id, proposal_id, snapshot::json, updated_at
    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::timestamptz[])
         AS new (tenant_id, proposal_id, snapshot, updated_at)
    ON CONFLICT (tenant_id, proposal_id) DO UPDATE
    SET snapshot = excluded.snapshot, updated_at = excluded.updated_at";

pub(super) const LOAD_PROPOSALS: &str = "
    -- proposals.load
    SELECT p.tenant_id, p.proposal_id, p.trip_id, p.status, p.title, p.url, p.channel, p.created_at, p.sent_at,
           p.viewed_at
    FROM unnest($1::uuid[], $2::uuid[]) AS w (tenant_id, lead_id)
    JOIN trips t ON t.tenant_id = w.tenant_id AND t.lead_id = w.lead_id
    JOIN proposals p ON p.tenant_id = t.tenant_id AND p.trip_id = t.trip_id";

/// Loads the trips of the enquiries that are loaded.
pub(super) async fn load(tx: &Transaction<'_>, states: &States) -> Result<Vec<Row>, TxError> {
    let (tenants, leads) = super::load::leads_of(states);
    if leads.is_empty() {
        return Ok(Vec::new());
    }
    query(tx, LOAD, &[&tenants, &leads]).await
}

/// Takes in what [`load`] found.
pub(super) fn fill(states: &mut States, rows: &[Row]) -> Result<(), TxError> {
    for row in rows {
        let Some(state) = states.get_mut(&TenantId(row.get("tenant_id"))) else { continue };
        let trip = Trip {
            id: TripId(row.get("trip_id")),
            lead_id: LeadId(row.get("lead_id")),
            title: row.get("title"),
            brief: serde_json::from_str(row.get("brief")).map_err(|_| unreadable("brief"))?,
            created_at: row.get("created_at"),
            updated_at: row.get("updated_at"),
        };
        state.trips.load(trip.id, trip);
    }
    Ok(())
}

/// Loads the proposals of the enquiries that are loaded.
pub(super) async fn load_proposals(
    tx: &Transaction<'_>,
    states: &States,
    wanted: &Wanted,
) -> Result<Vec<Row>, TxError> {
    let (tenants, leads) = super::load::leads_of(states);
    if !wanted.shown || leads.is_empty() {
        return Ok(Vec::new());
    }
    query(tx, LOAD_PROPOSALS, &[&tenants, &leads]).await
}

/// Takes in what [`load_proposals`] found.
pub(super) fn fill_proposals(states: &mut States, rows: &[Row]) -> Result<(), TxError> {
    for row in rows {
        let Some(state) = states.get_mut(&TenantId(row.get("tenant_id"))) else { continue };
        let proposal = Proposal {
            id: ProposalId(row.get("proposal_id")),
            trip_id: TripId(row.get("trip_id")),
            status: ProposalStatus::parse(row.get("status")).ok_or_else(|| unreadable("status"))?,
            title: row.get("title"),
            url: row.get("url"),
            channel: row.get("channel"),
            created_at: row.get("created_at"),
            sent_at: row.get("sent_at"),
            viewed_at: row.get("viewed_at"),
        };
        state.proposals.load(proposal.id, proposal);
    }
    Ok(())
}

/// Writes new trips.
pub(super) async fn insert(tx: &Transaction<'_>, states: &States) -> Result<(), TxError> {
    let new = super::rows(states, |state| state.trips.in_state(RowState::New));
    write_rows!(tx, INSERT, new, |trip| [
        trip.tenant,
        trip.id.0,
        trip.lead_id.0,
        trip.title.as_str(),
        super::json(&trip.brief),
        trip.created_at,
        trip.updated_at,
    ])
}

/// Writes changed trips.
pub(super) async fn update(tx: &Transaction<'_>, states: &States) -> Result<(), TxError> {
    let changed = super::rows(states, |state| state.trips.in_state(RowState::Changed));
    write_rows!(tx, UPDATE, changed, |trip| [
        trip.tenant,
        trip.id.0,
        trip.title.as_str(),
        super::json(&trip.brief),
        trip.updated_at,
    ])
}

/// Writes new proposals.
pub(super) async fn insert_proposals(tx: &Transaction<'_>, states: &States) -> Result<(), TxError> {
    let new = super::rows(states, |state| state.proposals.in_state(RowState::New));
    write_rows!(tx, INSERT_PROPOSALS, new, |proposal| [
        proposal.tenant,
        proposal.id.0,
        proposal.trip_id.0,
        proposal.status.as_str(),
        proposal.created_at,
    ])
}

/// Writes changed proposals.
pub(super) async fn update_proposals(tx: &Transaction<'_>, states: &States) -> Result<(), TxError> {
    let changed = super::rows(states, |state| state.proposals.in_state(RowState::Changed));
    write_rows!(tx, UPDATE_PROPOSALS, changed, |proposal| [
        proposal.tenant,
        proposal.id.0,
        proposal.status.as_str(),
        proposal.title.as_deref(),
        proposal.url.as_deref(),
        proposal.channel.as_deref(),
        proposal.sent_at,
        proposal.viewed_at,
    ])
}

/// Writes new and replaced itineraries.
pub(super) async fn insert_itineraries(tx: &Transaction<'_>, states: &States) -> Result<(), TxError> {
    let new = super::rows(states, |state| state.itineraries.in_state(RowState::New));
    write_rows!(tx, INSERT_ITINERARIES, new, |itinerary| [
        itinerary.tenant,
        itinerary.proposal_id.0,
        itinerary.snapshot.as_str(),
        itinerary.updated_at,
    ])
}
