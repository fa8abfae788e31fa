//! The agency, its members, and what the ledger keeps.

use common::model::{ClientId, DiscoveryId, LeadId, TenantId, TripId};
use uuid::Uuid;

/// An agency, as far as rules care.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// Its id.
    pub id: TenantId,
    /// Its slug.
    pub slug: String,
    /// First part of its enquiry numbers.
    pub enquiry_prefix: String,
    /// Whether Traveller Discovery is on (D15a).
    pub discovery_enabled: bool,
    /// Whether anybody subscribes to its outbound events.
    pub has_subscriptions: bool,
}

/// A member of the agency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Lower case.
    pub email: String,
    /// Full name.
    pub name: String,
}

/// What the ledger keeps of an applied event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// The event's id.
    pub event_id: String,
    /// Its type's name.
    pub event_type: String,
    /// The key that sent it.
    pub key_prefix: String,
    /// The message that applied it.
    pub request_id: Uuid,
    /// Its place in that message's batch.
    pub ordinal: i16,
    /// First result: the client.
    pub client_id: Option<ClientId>,
    /// First result: the enquiry.
    pub lead_id: Option<LeadId>,
    /// First result: the trip.
    pub trip_id: Option<TripId>,
    /// First result: the discovery record.
    pub discovery_id: Option<DiscoveryId>,
    /// First result: the warnings.
    pub warnings: Vec<String>,
}
