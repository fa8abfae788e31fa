//! Leads and their trip workspaces.

use chrono::{DateTime, Utc};
use common::model::{Brief, ClientId, LeadId, Stage, TripId};
use serde_json::Value;

/// A lead. Texts for partners call it _enquiry_.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lead {
    pub(crate) id: LeadId,
    pub(crate) client_id: ClientId,
    /// `<prefix>-<year>-<six digits>`.
    pub(crate) enquiry_number: String,
    /// The caller's own id of the lead. Several leads may share one.
    pub(crate) external_id: Option<String>,
    pub(crate) title: String,
    /// Stage of the lead and of its trip.
    pub(crate) stage: Stage,
    /// Why it was lost; `None` at other stages.
    pub(crate) lost_reason: Option<String>,
    pub(crate) follow_up: bool,
    /// Lower-case email of the advisor who owns it.
    pub(crate) owner: Option<String>,
    /// The brief of a lead without a trip (D20).
    pub(crate) brief: Brief,
    /// The marketing block, a JSON object.
    pub(crate) attribution: Option<Value>,
    pub(crate) created_at: DateTime<Utc>,
    /// Also its version, from which the ETag is made (D19).
    pub(crate) updated_at: DateTime<Utc>,
}

/// The trip workspace of a lead.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Trip {
    pub(crate) id: TripId,
    pub(crate) lead_id: LeadId,
    pub(crate) title: String,
    /// The brief of the lead, which lives here once there is a trip (D20).
    pub(crate) brief: Brief,
    pub(crate) created_at: DateTime<Utc>,
    /// Also its version, from which the ETag is made (D19).
    pub(crate) updated_at: DateTime<Utc>,
}
