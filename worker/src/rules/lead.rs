//! Changes of a lead and of its trip. The lead shows fields of its trip: code that changes one of these also changes the lead's
//! version (D19).

use super::InternalError;
use crate::state::{Lead, TenantState, Trip};
use chrono::{DateTime, Utc};
use common::model::{LeadId, TripId};
use common::version::next_version;

/// The lead with that id, which must be loaded.
pub(crate) fn get(state: &TenantState, id: LeadId) -> Result<&Lead, InternalError> {
    state.leads.get(&id).ok_or(InternalError("the state holds a lead that was found"))
}

/// The trip of a lead, if it has one.
pub(crate) fn trip_id(state: &TenantState, id: LeadId) -> Option<TripId> {
    state.trip_of(id).map(|trip| trip.id)
}

/// Changes a lead and increases its version.
pub(crate) fn change(
    state: &mut TenantState, id: LeadId, now: DateTime<Utc>, change: impl FnOnce(&mut Lead),
) -> Result<(), InternalError> {
    let lead = state.leads.change(&id).ok_or(InternalError("the state holds a lead that is changed"))?;
    change(lead);
    lead.updated_at = next_version(lead.updated_at, now);
    Ok(())
}

/// Changes the trip of a lead, if it has one, and increases the trip's version. The caller must increase the lead's
/// version if it shows the change.
pub(crate) fn change_trip(state: &mut TenantState, id: LeadId, now: DateTime<Utc>, change: impl FnOnce(&mut Trip)) {
    let Some(trip_id) = trip_id(state, id) else { return };
    if let Some(trip) = state.trips.change(&trip_id) {
        change(trip);
        trip.updated_at = next_version(trip.updated_at, now);
    }
}
