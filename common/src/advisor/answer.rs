//! The answer to an action that was done.

use crate::model::{ClientId, LeadId, ProposalId, Stage, TripId};
use serde::{Deserialize, Serialize};

/// `{"ok": true, ..}` and the enquiry as the action left it: ids that exist, and its stage. What is refused is answered
/// with an error body instead ([`crate::write::WriteRefusal::body`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActionDone {
    /// Always true.
    pub ok: bool,
    /// Whose enquiry it is.
    pub client_id: ClientId,
    /// The enquiry.
    pub lead_id: LeadId,
    /// Its trip workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trip_id: Option<TripId>,
    /// The trip's proposal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal_id: Option<ProposalId>,
    /// The booking that was confirmed or cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub booking_ref: Option<String>,
    /// Where the enquiry stands.
    pub stage: Stage,
}
