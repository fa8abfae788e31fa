//! The tenant, its members, and the entries of the ledger.

use common::model::{ClientId, DiscoveryId, LeadId, TenantId, TripId};
use uuid::Uuid;

/// The fields of a tenant that rules use.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// Primary key; all other records refer to it.
    pub id: TenantId,
    /// The name that callers send as `X-Connect-Tenant`, and that envelopes carry.
    pub slug: String,
    /// First part of its enquiry numbers, such as `ENQ`.
    pub enquiry_prefix: String,
    /// Whether Traveller Discovery is on (D15a).
    pub discovery_enabled: bool,
    /// Whether it has a subscription for outbound events.
    pub has_subscriptions: bool,
}

/// A member of the tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Lower case, as members are looked up.
    pub(crate) email: String,
    pub(crate) name: String,
}

/// An entry of the ledger: an applied event with its first result, which duplicates repeat (D7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LedgerEntry {
    pub(crate) event_id: String,
    pub(crate) event_type: String,
    /// Prefix of the API key that sent it.
    pub(crate) key_prefix: String,
    /// Request id of the message that applied it.
    pub(crate) request_id: Uuid,
    /// Its index in that message.
    pub(crate) ordinal: i16,
    pub(crate) client_id: Option<ClientId>,
    pub(crate) lead_id: Option<LeadId>,
    pub(crate) trip_id: Option<TripId>,
    pub(crate) discovery_id: Option<DiscoveryId>,
    pub(crate) warnings: Vec<String>,
    /// The trace of its request, unless it is named like the request. Not loaded.
    pub(crate) trace_id: Option<Uuid>,
}
