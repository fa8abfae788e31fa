//! Event types, inbound and outbound.

use std::fmt;

macro_rules! event_types {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// All types.
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
    /// What partners send (specification: Inbound event types).
    InboundType {
        /// Creates or updates a client.
        ContactIdentified = "contact.identified",
        /// Patches a client that exists.
        ContactUpdated = "contact.updated",
        /// Opens an enquiry.
        EnquirySubmitted = "enquiry.submitted",
        /// Records what a traveller looks for.
        DiscoveryUpserted = "traveller.discovery_upserted",
        /// Timeline only.
        TripPlanningStarted = "trip.planning_started",
        /// Timeline only.
        TripDraftUpdated = "trip.draft_updated",
        /// Timeline only.
        QuoteRequested = "quote.requested",
        /// Advances the open enquiry.
        BookingStarted = "booking.started",
        /// Flags the open enquiry for follow-up.
        BookingAbandoned = "booking.abandoned",
        /// Books the enquiry.
        BookingCompleted = "booking.completed",
        /// Confirms the credit of an invoice; needs `credit:write`.
        BookingCreditApplied = "booking.credit_applied",
        /// Refreshes the credit shown; needs `credit:write`.
        EmployeeCreditUpdated = "employee.credit_updated",
    }
}

event_types! {
    /// What subscribers receive. The two reserved types of the specification are never emitted and so aren't here.
    OutboundType {
        /// An advisor was assigned.
        LeadAssigned = "lead.assigned",
        /// An enquiry moved between stages.
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
