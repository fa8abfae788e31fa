//! Proposals and the itineraries they hold.

use chrono::{DateTime, Utc};
use common::model::{ProposalId, TripId};

/// Where a proposal stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProposalStatus {
    /// Being written.
    Draft,
    /// Sent to the traveller.
    Sent,
    /// Opened by the traveller.
    Viewed,
    /// Thrown away by the advisor.
    Discarded,
}

impl ProposalStatus {
    /// The status of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Draft, Self::Sent, Self::Viewed, Self::Discarded]
            .into_iter()
            .find(|status| status.as_str() == name)
    }

    /// The name on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Sent => "sent",
            Self::Viewed => "viewed",
            Self::Discarded => "discarded",
        }
    }
}

/// A proposal.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// Its id.
    pub id: ProposalId,
    /// Its trip.
    pub trip_id: TripId,
    /// Where it stands.
    pub status: ProposalStatus,
    /// Its title, once it was sent.
    pub title: Option<String>,
    /// Where the traveller opens it.
    pub url: Option<String>,
    /// How it was sent.
    pub channel: Option<String>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last sent.
    pub sent_at: Option<DateTime<Utc>>,
    /// When the traveller opened what was last sent.
    pub viewed_at: Option<DateTime<Utc>>,
}

impl Proposal {
    /// The draft that a trip opens with (D20).
    pub const fn draft(id: ProposalId, trip_id: TripId, now: DateTime<Utc>) -> Self {
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

/// The itinerary that a proposal holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Itinerary {
    /// The proposal.
    pub proposal_id: ProposalId,
    /// JSON text, as sent.
    pub snapshot: String,
    /// When it was stored.
    pub updated_at: DateTime<Utc>,
}
