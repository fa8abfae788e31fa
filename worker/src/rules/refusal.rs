//! Why an event is `failed`, with all its codes and texts, and why a records write or an advisor action is not applied.

use common::write::WriteRefusal;
use thiserror::Error;

/// A violated invariant: the unit of work fails (D8). The text is the invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("invariant violated, expected: {0}")]
pub struct InternalError(pub &'static str);

/// Why a records write or an advisor action is not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WriteError {
    /// The rules refuse it; the caller is told why.
    Refused(WriteRefusal),
    /// A violated invariant: the state must be discarded.
    Internal(InternalError),
}

impl From<WriteRefusal> for WriteError {
    fn from(refusal: WriteRefusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<InternalError> for WriteError {
    fn from(error: InternalError) -> Self {
        Self::Internal(error)
    }
}

/// Why an event failed. Callers see [`Refusal::reason`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// A credit event of a key without `credit:write` (D8).
    #[error("the key lacks the scope credit:write")]
    InsufficientScope,
    /// `contact.updated` never creates a client (specification: Inbound event types).
    #[error("no contact matches")]
    ContactNotFound,
    /// A `booking.credit_applied` event that names no existing invoice (D15b).
    #[error("no invoice matches")]
    BookingNotFound,
    /// The event did not occur after the person was erased (D32).
    #[error("the person was erased after the event occurred")]
    ContactErased,
    /// A field without which the event cannot be applied is missing or invalid.
    #[error("the payload lacks a required field, or it is invalid")]
    InvalidPayload,
    /// A violated invariant (D8) fails the unit, so the rules never return it as the result of an event. If the event fails alone as
    /// well, `consume::events` replies with `internal_error`.
    #[error(transparent)]
    Internal(#[from] InternalError),
}

impl Refusal {
    /// The `error` of a failed result. It contains no data, and is the same for the same cause.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::InsufficientScope => "insufficient_scope",
            Self::ContactNotFound => "contact_not_found",
            Self::BookingNotFound => "booking_not_found",
            Self::ContactErased => "contact_erased",
            Self::InvalidPayload => "invalid_payload",
            Self::Internal(_) => "internal_error",
        }
    }
}
