//! Trip discovery and what holds for a traveller beyond one trip.

use chrono::{DateTime, Utc};
use common::model::{ClientId, DiscoveryId, LeadId};
use serde_json::Value;

/// A trip discovery record.
#[derive(Clone, Debug, PartialEq)]
pub struct Discovery {
    /// Its id.
    pub id: DiscoveryId,
    /// The traveller.
    pub client_id: ClientId,
    /// The enquiry it is about; one record for an enquiry.
    pub lead_id: LeadId,
    /// A JSON object of the fields known.
    pub discovery: Value,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Last change.
    pub updated_at: DateTime<Utc>,
}

/// What holds for a traveller beyond one trip.
#[derive(Clone, Debug, PartialEq)]
pub struct TravellerProfile {
    /// The traveller.
    pub client_id: ClientId,
    /// A JSON object: constraints, styleDefaults.
    pub profile: Value,
    /// Free text.
    pub essence: Option<String>,
    /// Last change.
    pub updated_at: DateTime<Utc>,
}
