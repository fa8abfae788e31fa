//! Changing an enquiry and its trip. What the enquiry shows of its trip is a change of both (D19).

use super::InternalError;
use crate::state::{Lead, TenantState, Trip};
use chrono::{DateTime, Utc};
use common::clock::next_version;
use common::model::{LeadId, TripId};

/// The enquiry of that id, which is known to be there.
pub fn get(state: &TenantState, id: LeadId) -> Result<&Lead, InternalError> {
    state.leads.get(&id).ok_or(InternalError("an enquiry that was found is there"))
}

/// The trip of an enquiry, once it has one.
pub fn trip_id(state: &TenantState, id: LeadId) -> Option<TripId> {
    state.trip_of(id).map(|trip| trip.id)
}

/// Changes an enquiry; its version grows.
pub fn change(
    state: &mut TenantState,
    id: LeadId,
    now: DateTime<Utc>,
    change: impl FnOnce(&mut Lead),
) -> Result<(), InternalError> {
    let lead = state.leads.change(&id).ok_or(InternalError("an enquiry that is changed is there"))?;
    change(lead);
    lead.updated_at = next_version(lead.updated_at, now);
    Ok(())
}

/// Changes the trip of an enquiry, if it has one; the trip's version grows. The enquiry's is the caller's to
/// grow.
pub fn change_trip(state: &mut TenantState, id: LeadId, now: DateTime<Utc>, change: impl FnOnce(&mut Trip)) {
    let Some(trip_id) = trip_id(state, id) else { return };
    if let Some(trip) = state.trips.change(&trip_id) {
        change(trip);
        trip.updated_at = next_version(trip.updated_at, now);
    }
}
