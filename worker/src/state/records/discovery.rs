//! Trip discovery records, and traveler profiles, which hold for all trips of a traveler.

use chrono::{DateTime, Utc};
use common::model::{ClientId, DiscoveryId, LeadId};
use serde_json::Value;

/// A trip discovery record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Discovery {
    pub(crate) id: DiscoveryId,
    pub(crate) client_id: ClientId,
    /// Its lead; a lead has at most one record.
    pub(crate) lead_id: LeadId,
    /// A JSON object of the known fields.
    pub(crate) discovery: Value,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) updated_at: DateTime<Utc>,
}

/// Preferences of a traveler that hold for all trips.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TravellerProfile {
    pub(crate) client_id: ClientId,
    /// A JSON object with the fields `constraints` and `styleDefaults`.
    pub(crate) profile: Value,
    /// Free text about the traveler.
    pub(crate) essence: Option<String>,
    /// Time of the last change.
    pub(crate) updated_at: DateTime<Utc>,
}
