//! The effects of an accepted event.

use super::Warnings;
use common::model::{ClientId, DiscoveryId, LeadId, TripId};

/// The effects of an accepted event that its result reports.
#[derive(Debug)]
pub(super) struct EventEffects {
    pub(super) client_id: ClientId,
    pub(super) lead_id: Option<LeadId>,
    pub(super) trip_id: Option<TripId>,
    pub(super) discovery_id: Option<DiscoveryId>,
    pub(super) warnings: Warnings,
}

impl EventEffects {
    /// An event that concerns no lead.
    pub(super) fn for_client(client_id: ClientId, warnings: Warnings) -> Self {
        Self { client_id, lead_id: None, trip_id: None, discovery_id: None, warnings }
    }
}
