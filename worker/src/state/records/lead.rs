//! Enquiries and their trip workspaces.

use chrono::{DateTime, Utc};
use common::model::{Brief, ClientId, LeadId, Stage, TripId};
use serde_json::Value;

/// An enquiry.
#[derive(Clone, Debug, PartialEq)]
pub struct Lead {
    /// Its id.
    pub id: LeadId,
    /// Whose it is.
    pub client_id: ClientId,
    /// `<prefix>-<year>-<six digits>`.
    pub enquiry_number: String,
    /// Caller's own id.
    pub external_id: Option<String>,
    /// Title advisors see.
    pub title: String,
    /// Its stage, and its trip's.
    pub stage: Stage,
    /// Why it was lost.
    pub lost_reason: Option<String>,
    /// Flag for follow-up.
    pub follow_up: bool,
    /// Email of the advisor.
    pub owner: Option<String>,
    /// The brief while there is no trip (D20).
    pub brief: Brief,
    /// The marketing block, a JSON object.
    pub attribution: Option<Value>,
    /// When it was opened.
    pub created_at: DateTime<Utc>,
    /// Its version (D19).
    pub updated_at: DateTime<Utc>,
}

/// A trip workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct Trip {
    /// Its id.
    pub id: TripId,
    /// Its enquiry.
    pub lead_id: LeadId,
    /// Title.
    pub title: String,
    /// The brief (D20).
    pub brief: Brief,
    /// When it was opened.
    pub created_at: DateTime<Utc>,
    /// Its version (D19).
    pub updated_at: DateTime<Utc>,
}
