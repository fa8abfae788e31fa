//! The stages of a lead and their order (D11).

use serde::{Deserialize, Serialize};

crate::named! {
    /// The stage of a lead. The declared order is the pipeline's, which does not include `Lost` and `Archived`.
    /// Names are those on the wire and in the database.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Stage {
        /// The lead was opened.
        Inquiry = "inquiry",
        /// To be followed up.
        FollowUp = "follow_up",
        /// An advisor is building the proposal.
        BuildingProposal = "building_proposal",
        /// The terms are being negotiated.
        Negotiation = "negotiation",
        /// The traveler approved a proposal.
        ProposalApproved = "proposal_approved",
        /// The trip is booked.
        TripBooked = "trip_booked",
        /// The trip has taken place.
        Travelled = "travelled",
        /// Lost, with a reason.
        Lost = "lost",
        /// Archived by an advisor.
        Archived = "archived",
    }
}

impl Stage {
    /// Whether a lead at this stage is open (D11).
    pub const fn is_open(self) -> bool {
        match self {
            Self::Inquiry | Self::FollowUp | Self::BuildingProposal | Self::Negotiation | Self::ProposalApproved => {
                true
            }
            Self::TripBooked | Self::Travelled | Self::Lost | Self::Archived => false,
        }
    }

    /// Position in the pipeline; `None` outside of it.
    const fn rank(self) -> Option<u8> {
        match self {
            Self::Inquiry => Some(0),
            Self::FollowUp => Some(1),
            Self::BuildingProposal => Some(2),
            Self::Negotiation => Some(3),
            Self::ProposalApproved => Some(4),
            Self::TripBooked => Some(5),
            Self::Travelled => Some(6),
            Self::Lost | Self::Archived => None,
        }
    }

    /// Whether `self` comes after `current` in the pipeline; never true for stages outside of it.
    pub fn is_further_than(self, current: Self) -> bool {
        matches!((self.rank(), current.rank()), (Some(to), Some(from)) if to > from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_and_archived_are_not_in_the_order() {
        for outside in [Stage::Lost, Stage::Archived] {
            for stage in Stage::ALL {
                assert!(!stage.is_further_than(outside) && !outside.is_further_than(stage));
            }
        }
        assert!(Stage::ProposalApproved.is_further_than(Stage::Inquiry));
        assert!(!Stage::ProposalApproved.is_further_than(Stage::ProposalApproved));
    }
}
