//! Why an event is not applied.

use thiserror::Error;

/// An invariant that does not hold: the unit of work can't go on (D8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("broken invariant: {0}")]
pub struct InternalError(pub &'static str);

/// Why an event failed. What callers see is [`Refusal::reason`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// A credit event without `credit:write` (D8).
    #[error("the key lacks credit:write")]
    InsufficientScope,
    /// `contact.updated` never creates a client (specification: Inbound event types).
    #[error("no contact matches")]
    ContactNotFound,
    /// `booking.credit_applied` that finds no invoice (D15b).
    #[error("no invoice matches")]
    BookingNotFound,
    /// A payload without which the event has no meaning.
    #[error("the payload lacks what the event is about")]
    InvalidPayload,
    /// A broken invariant (D8).
    #[error(transparent)]
    Internal(#[from] InternalError),
}

impl Refusal {
    /// The `error` of a failed result: safe, and the same for the same cause.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::InsufficientScope => "insufficient_scope",
            Self::ContactNotFound => "contact_not_found",
            Self::BookingNotFound => "booking_not_found",
            Self::InvalidPayload => "invalid_payload",
            Self::Internal(_) => "internal_error",
        }
    }
}
