//! Proposals and the itineraries they hold.

use chrono::{DateTime, Utc};
use common::model::{ProposalId, TripId};

common::named! {
    /// The status of a proposal. Names are those in the API and in the database.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ProposalStatus {
        /// The advisor is still preparing it.
        Draft = "draft",
        /// Sent to the traveler.
        Sent = "sent",
        /// Opened by the traveler.
        Viewed = "viewed",
        /// Discarded by the advisor.
        Discarded = "discarded",
    }
}

/// A proposal of a trip.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Proposal {
    pub(crate) id: ProposalId,
    pub(crate) trip_id: TripId,
    pub(crate) status: ProposalStatus,
    /// Title; `None` until it was sent.
    pub(crate) title: Option<String>,
    /// URL at which the traveler opens it.
    pub(crate) url: Option<String>,
    /// Channel by which it was sent, such as `email`.
    pub(crate) channel: Option<String>,
    pub(crate) created_at: DateTime<Utc>,
    /// When it was last sent.
    pub(crate) sent_at: Option<DateTime<Utc>>,
    /// When the traveler opened it after it was last sent.
    pub(crate) viewed_at: Option<DateTime<Utc>>,
}

impl Proposal {
    /// The draft that a trip opens with (D20).
    pub(crate) const fn draft(id: ProposalId, trip_id: TripId, now: DateTime<Utc>) -> Self {
        Self {
            id,
            trip_id,
            status: ProposalStatus::Draft,
            title: None,
            url: None,
            channel: None,
            created_at: now,
            sent_at: None,
            viewed_at: None,
        }
    }
}

/// The itinerary of a proposal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Itinerary {
    pub(crate) proposal_id: ProposalId,
    /// JSON text, as sent.
    pub(crate) snapshot: String,
    /// When it was stored.
    pub(crate) updated_at: DateTime<Utc>,
}
