//! The reply to an advisor action that was applied.

use crate::model::{ClientId, LeadId, ProposalId, Stage, TripId};
use serde::{Deserialize, Serialize};

/// `{"ok": true, ..}` with the ids and the stage of the lead after the action. A refused action is replied to with an error
/// body instead ([`crate::write::WriteRefusal::body`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActionReply {
    /// Always true; an error body has no `ok`.
    pub ok: bool,
    /// The lead's client.
    pub client_id: ClientId,
    /// The lead that was opened or changed.
    pub lead_id: LeadId,
    /// The lead's trip workspace; absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trip_id: Option<TripId>,
    /// The trip's newest proposal; absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal_id: Option<ProposalId>,
    /// The booking that was confirmed or cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub booking_ref: Option<String>,
    /// The lead's stage after the action.
    pub stage: Stage,
}
