//! Event types, inbound and outbound.

use std::fmt;

/// The type of the event that an operator sends to one subscription to test it. No event of a lead has it, and no subscription
/// can select it.
pub const TEST_EVENT_TYPE: &str = "webhook.test";

macro_rules! event_types {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// Each type once, in the order of the declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// The type of that name.
            pub fn parse(name: &str) -> Option<Self> {
                match name { $($text => Some(Self::$variant),)+ _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

event_types! {
    /// The types that partners send (specification: Inbound event types).
    InboundType {
        /// Creates or updates a client.
        ContactIdentified = "contact.identified",
        /// Patches a client that exists.
        ContactUpdated = "contact.updated",
        /// Opens a lead.
        EnquirySubmitted = "enquiry.submitted",
        /// Stores or updates a traveler's discovery record.
        DiscoveryUpserted = "traveller.discovery_upserted",
        /// Timeline only.
        TripPlanningStarted = "trip.planning_started",
        /// Timeline only.
        TripDraftUpdated = "trip.draft_updated",
        /// Timeline only.
        QuoteRequested = "quote.requested",
        /// Advances the stage of the open lead.
        BookingStarted = "booking.started",
        /// Flags the open lead for follow-up.
        BookingAbandoned = "booking.abandoned",
        /// Moves the lead to `trip_booked`.
        BookingCompleted = "booking.completed",
        /// Confirms the credit of an invoice; needs `credit:write`.
        BookingCreditApplied = "booking.credit_applied",
        /// Refreshes the credit shown; needs `credit:write`.
        EmployeeCreditUpdated = "employee.credit_updated",
    }
}

event_types! {
    /// The types that subscribers receive, without the two reserved types of the specification, which are never emitted.
    OutboundType {
        /// An advisor was assigned.
        LeadAssigned = "lead.assigned",
        /// The stage of a lead changed.
        LeadStageChanged = "lead.stage_changed",
        /// A proposal was sent.
        ProposalSent = "proposal.sent",
        /// A proposal was opened.
        ProposalViewed = "proposal.viewed",
        /// A trip was booked.
        BookingConfirmed = "booking.confirmed",
        /// A booking was cancelled.
        BookingCancelled = "booking.cancelled",
    }
}

impl InboundType {
    /// Whether the event needs `credit:write` besides `events:ingest`.
    pub const fn needs_credit_scope(self) -> bool {
        matches!(self, Self::BookingCreditApplied | Self::EmployeeCreditUpdated)
    }
}
