//! Trip workspaces. They are loaded with their leads.

use super::{Columns, States, rows, unreadable, write_rows};
use crate::state::{RowState, Trip};
use common::db::{Query, TxError};
use common::model::{LeadId, TripId};

common::statements! {
    const INSERT = "
    -- trips.insert
    INSERT INTO trips (tenant_id, trip_id, lead_id, title, brief, created_at, updated_at)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[]::json[], $6::timestamptz[],
                         $7::timestamptz[])";

    const UPDATE = "
    -- trips.update
    UPDATE trips t SET title = n.title, brief = n.brief::json, updated_at = n.updated_at
    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::timestamptz[])
         AS n (tenant_id, trip_id, title, brief, updated_at)
    WHERE t.tenant_id = n.tenant_id AND t.trip_id = n.trip_id";
}

/// Reads the trip of a lead. `None` if it has none: only one column has been read then.
pub(super) fn read_trip(lead_id: LeadId, columns: &mut Columns<'_>) -> Result<Option<Trip>, TxError> {
    let Some(id) = columns.take::<Option<_>>() else { return Ok(None) };
    Ok(Some(Trip {
        id: TripId(id),
        lead_id,
        title: columns.take(),
        brief: serde_json::from_str(columns.take()).map_err(|_| unreadable("brief"))?,
        created_at: columns.take(),
        updated_at: columns.take(),
    }))
}

/// Inserts new trips. Their leads must be inserted before.
pub(super) fn insert(states: &States) -> Option<Query<'_>> {
    let new = rows(states, |state| state.trips.in_state(RowState::New));
    write_rows!(INSERT, new, |tenant, trip| [
        tenant,
        trip.id.0,
        trip.lead_id.0,
        trip.title.as_str(),
        super::json(&trip.brief),
        trip.created_at,
        trip.updated_at,
    ])
}

/// Writes changed trips, whose clients are locked.
pub(super) fn update(states: &States) -> Option<Query<'_>> {
    let changed = rows(states, |state| state.trips.in_state(RowState::Changed));
    write_rows!(UPDATE, changed, |tenant, trip| [
        tenant,
        trip.id.0,
        trip.title.as_str(),
        super::json(&trip.brief),
        trip.updated_at,
    ])
}
