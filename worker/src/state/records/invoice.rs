//! Bookings, what is owed for them, and credit.

use chrono::{DateTime, Utc};
use common::model::{ClientId, LeadId, TripId};

/// Whether the credit that an invoice counts as paid was really taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreditState {
    /// No credit is used.
    None,
    /// Used, not yet confirmed.
    Pending,
    /// Confirmed.
    Confirmed,
}

impl CreditState {
    /// The name on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pending => "pending",
            Self::Confirmed => "confirmed",
        }
    }
}

/// An amount of money in hundredths of the major unit, so that sums are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(pub i64);

/// A booking and what is owed for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Invoice {
    /// Identifies the booking within the agency.
    pub booking_ref: String,
    /// The enquiry.
    pub lead_id: LeadId,
    /// Its trip.
    pub trip_id: Option<TripId>,
    /// Its client.
    pub client_id: ClientId,
    /// Booking amount.
    pub amount: Option<Money>,
    /// ISO 4217 code of all amounts.
    pub currency: Option<String>,
    /// Credit counted as paid.
    pub credit_used: Option<Money>,
    /// Credit really taken.
    pub credit_applied: Option<Money>,
    /// Where the credit stands.
    pub credit_state: CreditState,
    /// Reopened difference.
    pub balance_due: Money,
    /// When the booking was cancelled.
    pub cancelled_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Last change.
    pub updated_at: DateTime<Utc>,
}

/// Corporate credit shown for a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Credit {
    /// The client.
    pub client_id: ClientId,
    /// When it was so; the newest wins (D15b).
    pub as_of: DateTime<Utc>,
    /// The employee's membership.
    pub membership_id: Option<String>,
    /// The employer.
    pub corporate_name: Option<String>,
    /// Hundredths of a rupee.
    pub available_paise: Option<i64>,
    /// Hundredths of a rupee.
    pub granted_paise: Option<i64>,
    /// 0 to 100.
    pub redeemable_percent: Option<f64>,
}
