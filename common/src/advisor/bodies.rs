//! The fields of each action, beside `action` and `tenant`.

use super::{Amount, Link};
use crate::event::Faults;
use crate::model::{Email, Stage, text};
use crate::record::{Currency, Line, Sent, Verbatim, fault};
use deserr::{Deserr, IntoValue, Value, ValuePointerRef};

/// An id as it was written; whether there is such a record is a rule (404).
pub type Id = Line<{ text::EXTERNAL_ID }>;

/// An action that needs no more than an enquiry.
#[derive(Clone, Debug, PartialEq, Eq, Deserr)]
#[deserr(error = Faults, deny_unknown_fields, rename_all = camelCase)]
pub struct OfLead {
    /// The enquiry.
    pub lead: Id,
}

/// Whose enquiry is opened.
#[derive(Clone, Debug, PartialEq)]
pub enum Who {
    /// This client's; nobody is matched or made.
    Client(Id),
    /// That of the client who has this email, or is made with it (D10).
    Contact {
        /// What the client is matched by.
        email: Email,
        /// Full name.
        name: Option<String>,
    },
}

/// `open-lead`
#[derive(Clone, Debug, PartialEq)]
pub struct OpenLead {
    /// Whose it is.
    pub who: Who,
    /// Whether a trip workspace opens with it.
    pub with_trip: bool,
    /// Title advisors see.
    pub title: Option<String>,
    /// Where to.
    pub destination: Option<String>,
}

#[derive(Deserr)]
#[deserr(error = Faults, deny_unknown_fields, rename_all = camelCase)]
struct OpenLeadFields {
    #[deserr(default)]
    client: Sent<Id>,
    #[deserr(default)]
    email: Sent<Email>,
    #[deserr(default)]
    name: Sent<Line<{ text::NAME }>>,
    #[deserr(default)]
    no_trip: Sent<bool>,
    #[deserr(default)]
    title: Sent<Line<{ text::NAME }>>,
    #[deserr(default)]
    destination: Sent<Line<{ text::LINE }>>,
}

impl Deserr<Faults> for OpenLead {
    fn deserialize_from_value<V: IntoValue>(
        value: Value<V>,
        at: ValuePointerRef<'_>,
    ) -> Result<Self, Faults> {
        let fields = OpenLeadFields::deserialize_from_value(value, at)?;
        let name = fields.name.into_string();
        let who = match (fields.client.into_option(), fields.email.into_option()) {
            (Some(client), None) if name.is_none() => Who::Client(client),
            (Some(_), _) => return Err(fault(at.push_key("client"), "must stand without email and name")),
            (None, Some(email)) => Who::Contact { email, name },
            (None, None) => return Err(fault(at, "must have client, or email")),
        };
        Ok(Self {
            who,
            with_trip: !fields.no_trip.into_option().unwrap_or_default(),
            title: fields.title.into_string(),
            destination: fields.destination.into_string(),
        })
    }
}

/// `assign`
#[derive(Clone, Debug, PartialEq, Deserr)]
#[deserr(error = Faults, deny_unknown_fields, rename_all = camelCase)]
pub struct Assign {
    /// The enquiry.
    pub lead: Id,
    /// The new owner's email; whether it is a member's is a rule (`owner_not_member`).
    pub owner: Email,
}

/// `stage`
#[derive(Clone, Debug, PartialEq, Deserr)]
#[deserr(error = Faults, deny_unknown_fields, rename_all = camelCase)]
pub struct StageMove {
    /// The enquiry.
    pub lead: Id,
    /// Any stage there is (D11); whether it can be set now is a rule.
    pub stage: Stage,
    /// Why, as sent; whether it is long enough for `lost` is a rule (`reason_required`).
    #[deserr(default)]
    pub reason: Sent<Verbatim<{ text::NOTES }>>,
}

/// `proposal-send`
#[derive(Clone, Debug, PartialEq, Eq, Deserr)]
#[deserr(error = Faults, deny_unknown_fields, rename_all = camelCase)]
pub struct ProposalSend {
    /// The enquiry.
    pub lead: Id,
    /// Title of the proposal.
    pub title: Line<{ text::NAME }>,
    /// Where the traveller opens it.
    pub url: Link,
    /// How it is sent, such as `email`.
    pub channel: Line<{ text::NAME }>,
}

/// `booking-confirm`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookingConfirm {
    /// The enquiry.
    pub lead: Id,
    /// Identifies the booking within the agency.
    pub booking_ref: Line<{ text::BOOKING_REF }>,
    /// Booking amount and its ISO 4217 code.
    pub price: Option<(Amount, String)>,
    /// Corporate credit counted as paid.
    pub credit_used: Option<Amount>,
}

#[derive(Deserr)]
#[deserr(error = Faults, deny_unknown_fields, rename_all = camelCase)]
struct BookingConfirmFields {
    lead: Id,
    booking_ref: Line<{ text::BOOKING_REF }>,
    #[deserr(default)]
    amount: Sent<Amount>,
    #[deserr(default)]
    currency: Sent<Currency>,
    #[deserr(default)]
    credit_used: Sent<Amount>,
}

impl Deserr<Faults> for BookingConfirm {
    fn deserialize_from_value<V: IntoValue>(
        value: Value<V>,
        at: ValuePointerRef<'_>,
    ) -> Result<Self, Faults> {
        let fields = BookingConfirmFields::deserialize_from_value(value, at)?;
        // As for a budget, half of the pair says nothing (D22).
        let price = match (fields.amount.into_option(), fields.currency.into_option()) {
            (Some(amount), Some(Currency(currency))) => Some((amount, currency)),
            (None, None) => None,
            (Some(_), None) => return Err(fault(at.push_key("currency"), "is required with amount")),
            (None, Some(_)) => return Err(fault(at.push_key("amount"), "is required with currency")),
        };
        let credit_used = fields.credit_used.into_option();
        Ok(Self { lead: fields.lead, booking_ref: fields.booking_ref, price, credit_used })
    }
}

/// `booking-cancel`
#[derive(Clone, Debug, PartialEq, Eq, Deserr)]
#[deserr(error = Faults, deny_unknown_fields, rename_all = camelCase)]
pub struct BookingCancel {
    /// The booking, however it was made (D25).
    pub booking_ref: Line<{ text::BOOKING_REF }>,
    /// Why.
    #[deserr(default)]
    pub reason: Sent<Line<{ text::NOTES }>>,
}
