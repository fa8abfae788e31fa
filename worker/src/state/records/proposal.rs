//! Proposals and the itineraries they hold.

use chrono::{DateTime, Utc};
use common::model::{ProposalId, TripId};

/// The status of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProposalStatus {
    /// The advisor is still preparing it.
    Draft,
    /// Sent to the traveler.
    Sent,
    /// Opened by the traveler.
    Viewed,
    /// Discarded by the advisor.
    Discarded,
}

impl ProposalStatus {
    /// The status of that name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::Draft, Self::Sent, Self::Viewed, Self::Discarded]
            .into_iter()
            .find(|status| status.as_str() == name)
    }

    /// The value in the API and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Sent => "sent",
            Self::Viewed => "viewed",
            Self::Discarded => "discarded",
        }
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
