//! Invoices of bookings, and corporate credit.

use chrono::{DateTime, Utc};
use common::model::{ClientId, LeadId, TripId};

/// Whether the credit that an invoice counts as paid was actually taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CreditState {
    /// The booking uses no credit.
    None,
    /// Counted as paid, not yet confirmed by `booking.credit_applied`.
    Pending,
    /// Confirmed by `booking.credit_applied`.
    Confirmed,
}

impl CreditState {
    /// The value in the API and in the database.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pending => "pending",
            Self::Confirmed => "confirmed",
        }
    }
}

/// An amount of money in hundredths of the major unit, so that sums are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Money(pub(crate) i64);

/// The invoice of a booking.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Invoice {
    /// Identifies the booking within the tenant.
    pub(crate) booking_ref: String,
    pub(crate) lead_id: LeadId,
    pub(crate) trip_id: Option<TripId>,
    pub(crate) client_id: ClientId,
    /// Price of the booking.
    pub(crate) amount: Option<Money>,
    /// ISO 4217 code of all amounts.
    pub(crate) currency: Option<String>,
    /// Corporate credit counted as paid.
    pub(crate) credit_used: Option<Money>,
    /// Corporate credit that was actually taken.
    pub(crate) credit_applied: Option<Money>,
    pub(crate) credit_state: CreditState,
    /// Credit counted as paid that was not taken, and is due again.
    pub(crate) balance_due: Money,
    /// When the booking was cancelled; `None` while it stands.
    pub(crate) cancelled_at: Option<DateTime<Utc>>,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) updated_at: DateTime<Utc>,
}

/// The corporate credit of a client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Credit {
    pub(crate) client_id: ClientId,
    /// Time of the balance; the newest one wins (D15b).
    pub(crate) as_of: DateTime<Utc>,
    pub(crate) membership_id: Option<String>,
    /// Name of the employer.
    pub(crate) corporate_name: Option<String>,
    pub(crate) available_paise: Option<i64>,
    pub(crate) granted_paise: Option<i64>,
    /// Share of a booking that credit may pay, 0 to 100.
    pub(crate) redeemable_percent: Option<f64>,
}
