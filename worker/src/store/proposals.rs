//! Proposals and their itineraries. A trip's newest proposal is loaded with its lead.

use super::{Columns, States, rows, unreadable, write_rows};
use crate::state::{Proposal, ProposalStatus, RowState};
use common::db::{Query, TxError};
use common::model::{ProposalId, TripId};

common::statements! {
    // A new proposal is an empty draft.
    const INSERT = "
    -- proposals.insert
    INSERT INTO proposals (tenant_id, proposal_id, trip_id, status, created_at)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::timestamptz[])";

    const UPDATE = "
    -- proposals.update
    UPDATE proposals p
    SET status = n.status, title = n.title, url = n.url, channel = n.channel, sent_at = n.sent_at,
        viewed_at = n.viewed_at
    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[],
                $8::timestamptz[])
         AS n (tenant_id, proposal_id, status, title, url, channel, sent_at, viewed_at)
    WHERE p.tenant_id = n.tenant_id AND p.proposal_id = n.proposal_id";

    const INSERT_ITINERARIES = "
    -- itineraries.insert
    INSERT INTO itineraries (tenant_id, proposal_id, snapshot, updated_at)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[]::json[], $4::timestamptz[])
    ON CONFLICT (tenant_id, proposal_id) DO UPDATE
    SET snapshot = excluded.snapshot, updated_at = excluded.updated_at";
}

/// Reads the proposal of a trip. `None` if none was loaded: only one column has been read then.
pub(super) fn read_proposal(trip_id: TripId, columns: &mut Columns<'_>) -> Result<Option<Proposal>, TxError> {
    let Some(id) = columns.take::<Option<_>>() else { return Ok(None) };
    Ok(Some(Proposal {
        id: ProposalId(id),
        trip_id,
        status: ProposalStatus::parse(columns.take()).ok_or_else(|| unreadable("status"))?,
        title: columns.take(),
        url: columns.take(),
        channel: columns.take(),
        created_at: columns.take(),
        sent_at: columns.take(),
        viewed_at: columns.take(),
    }))
}

/// Inserts new proposals, which are drafts.
pub(super) fn insert(states: &States) -> Option<Query<'_>> {
    let new = rows(states, |state| state.proposals.in_state(RowState::New));
    write_rows!(INSERT, new, |tenant, proposal| [
        tenant,
        proposal.id.0,
        proposal.trip_id.0,
        proposal.status.as_str(),
        proposal.created_at,
    ])
}

/// Writes changed proposals, whose clients are locked.
pub(super) fn update(states: &States) -> Option<Query<'_>> {
    let changed = rows(states, |state| state.proposals.in_state(RowState::Changed));
    write_rows!(UPDATE, changed, |tenant, proposal| [
        tenant,
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
pub(super) fn insert_itineraries(states: &States) -> Option<Query<'_>> {
    let new = rows(states, |state| state.itineraries.in_state(RowState::New));
    write_rows!(INSERT_ITINERARIES, new, |tenant, itinerary| [
        tenant,
        itinerary.proposal_id.0,
        itinerary.snapshot.as_str(),
        itinerary.updated_at,
    ])
}
