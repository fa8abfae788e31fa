//! The batch result (specification: Batch result).

use crate::model::{ClientId, DiscoveryId, LeadId, TripId};
use serde::{Deserialize, Serialize};

crate::named! {
    /// The status of one event of a batch. Names are those on the wire and in metrics.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum EventStatus {
        /// Applied now.
        Accepted = "accepted",
        /// Applied earlier; not applied again.
        Duplicate = "duplicate",
        /// Not applied, and not recorded in the ledger.
        Failed = "failed",
    }
}

/// The part of a result that only a `traveller.discovery_upserted` has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TravellerDiscovery {
    /// The caller sends it back as `payload.hosTripDiscoveryId`.
    pub discovery_id: DiscoveryId,
}

/// Why a part of an event was ignored (D45).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarningDetail {
    /// The code, as in `warnings`.
    pub warning: String,
    /// What it means, or which form was expected, for people.
    pub reason: String,
}

/// The result of one event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventResult {
    /// `eventId` of the event.
    pub event_id: String,
    /// Whether the event was applied now, applied before, or failed.
    pub status: EventStatus,
    /// Only on `failed`: a safe reason.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// The client matched or created.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client_id: Option<ClientId>,
    /// The lead that was opened or attached to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lead_id: Option<LeadId>,
    /// The trip workspace of this lead.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trip_id: Option<TripId>,
    /// Codes of the parts of the event that were ignored.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<String>,
    /// The reasons of these warnings, in the same order (D45).
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warning_details: Vec<WarningDetail>,
    /// Only for discovery events.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub traveller_discovery: Option<TravellerDiscovery>,
}

impl EventResult {
    /// A failed event; `error` is a fixed code that reveals nothing internal.
    pub fn failed(event_id: &str, error: &str) -> Self {
        Self {
            event_id: event_id.to_owned(),
            status: EventStatus::Failed,
            error: Some(error.to_owned()),
            client_id: None,
            lead_id: None,
            trip_id: None,
            warnings: Vec::new(),
            warning_details: Vec::new(),
            traveller_discovery: None,
        }
    }
}

/// The response of the events route: results in the order of the batch (D7).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchResult {
    /// Count of `accepted`.
    pub accepted: usize,
    /// Count of `duplicate`.
    pub duplicate: usize,
    /// Count of `failed`.
    pub failed: usize,
    /// One for each event.
    pub results: Vec<EventResult>,
}

impl BatchResult {
    /// Counts the results by status; their order stays.
    pub fn new(results: Vec<EventResult>) -> Self {
        let count = |status| results.iter().filter(|result| result.status == status).count();
        Self {
            accepted: count(EventStatus::Accepted),
            duplicate: count(EventStatus::Duplicate),
            failed: count(EventStatus::Failed),
            results,
        }
    }
}
