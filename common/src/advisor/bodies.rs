//! The fields of each action, beside `action` and `tenant`.

use crate::egress::ReceiverUrl;
use crate::event::Faults;
use crate::model::{Email, Stage, hundredths, text};
use crate::record::{Currency, Line, Sent, Verbatim, fault, from_string, number_text, other_kind};
use deserr::{Deserr, IntoValue, Value, ValueKind, ValuePointerRef};

/// An id as sent. Whether the record exists is decided by the rules (404).
pub type RecordId = Line<{ text::EXTERNAL_ID }>;

/// The fields of an action that names a lead and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Deserr)]
#[deserr(error = Faults, deny_unknown_fields, rename_all = camelCase)]
pub struct LeadOnly {
    /// Id of the lead, as sent.
    pub lead: RecordId,
}

/// The client for whom a lead is opened.
#[derive(Clone, Debug, PartialEq)]
pub enum LeadClient {
    /// An existing client, by id; no client is matched or created.
    Client(RecordId),
    /// The client with this email, who is created if there is none (D10).
    Contact {
        /// Identifies the client.
        email: Email,
        /// Full name.
        name: Option<String>,
    },
}

/// `open-lead`
#[derive(Clone, Debug, PartialEq)]
pub struct OpenLead {
    /// The client for whom the lead is opened.
    pub who: LeadClient,
    /// Whether a trip workspace opens with it.
    pub with_trip: bool,
    /// Title advisors see.
    pub title: Option<String>,
    /// Free text, at most 500 characters.
    pub destination: Option<String>,
}

crate::record::optional_fields! {
    struct OpenLeadFields {
        client: Sent<RecordId>,
        email: Sent<Email>,
        name: Sent<Line<{ text::NAME }>>,
        no_trip: Sent<bool>,
        title: Sent<Line<{ text::NAME }>>,
        destination: Sent<Line<{ text::LINE }>>,
    }
}

impl Deserr<Faults> for OpenLead {
    fn deserialize_from_value<V: IntoValue>(value: Value<V>, at: ValuePointerRef<'_>) -> Result<Self, Faults> {
        let fields = OpenLeadFields::deserialize_from_value(value, at)?;
        let name = fields.name.into_string();
        let who = match (fields.client.into_option(), fields.email.into_option()) {
            (Some(client), None) if name.is_none() => LeadClient::Client(client),
            (Some(_), _) => {
                return Err(fault(at.push_key("client"), "cannot be combined with email or name"));
            }
            (None, Some(email)) => LeadClient::Contact { email, name },
            (None, None) => return Err(fault(at, "must have either client or email")),
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
    /// Id of the lead, as sent.
    pub lead: RecordId,
    /// The new owner's email; whether it is a member's is decided by the rules (`owner_not_member`).
    pub owner: Email,
}

/// `stage`
#[derive(Clone, Debug, PartialEq, Deserr)]
#[deserr(error = Faults, deny_unknown_fields, rename_all = camelCase)]
pub struct StageChange {
    /// Id of the lead, as sent.
    pub lead: RecordId,
    /// Any known stage (D11); whether it may be set now is decided by the rules.
    pub stage: Stage,
    /// The reason, as sent; whether it suffices for `lost` is decided by the rules (`reason_required`).
    #[deserr(default)]
    pub reason: Sent<Verbatim<{ text::NOTES }>>,
}

/// `proposal-send`
#[derive(Clone, Debug, PartialEq, Eq, Deserr)]
#[deserr(error = Faults, deny_unknown_fields, rename_all = camelCase)]
pub struct ProposalSend {
    /// Id of the lead, as sent.
    pub lead: RecordId,
    /// Title of the proposal.
    pub title: Line<{ text::NAME }>,
    /// Address of the hosted proposal.
    pub url: Link,
    /// How it is sent, such as `email`.
    pub channel: Line<{ text::NAME }>,
}

/// `booking-confirm`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookingConfirm {
    /// Id of the lead, as sent.
    pub lead: RecordId,
    /// Identifies the booking within the tenant.
    pub booking_ref: Line<{ text::BOOKING_REF }>,
    /// Booking amount and its ISO 4217 code.
    pub price: Option<(Amount, String)>,
    /// Corporate credit counted as paid.
    pub credit_used: Option<Amount>,
}

#[derive(Deserr)]
#[deserr(error = Faults, deny_unknown_fields, rename_all = camelCase)]
struct BookingConfirmFields {
    lead: RecordId,
    booking_ref: Line<{ text::BOOKING_REF }>,
    #[deserr(default)]
    amount: Sent<Amount>,
    #[deserr(default)]
    currency: Sent<Currency>,
    #[deserr(default)]
    credit_used: Sent<Amount>,
}

impl Deserr<Faults> for BookingConfirm {
    fn deserialize_from_value<V: IntoValue>(value: Value<V>, at: ValuePointerRef<'_>) -> Result<Self, Faults> {
        let fields = BookingConfirmFields::deserialize_from_value(value, at)?;
        // As for a budget, an amount and its currency are only meaningful together (D22).
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
    /// The booking, whether an event or an action confirmed it (D25).
    pub booking_ref: Line<{ text::BOOKING_REF }>,
    /// The reason, at most 2,000 characters.
    #[deserr(default)]
    pub reason: Sent<Line<{ text::NOTES }>>,
}

/// Maximum length of an amount that is written as a string, in characters.
const TEXT_MAX: usize = 40;

/// An amount in major units, not negative and below 10^13, kept as whole hundredths. It is a JSON number, or a string of
/// digits with or without a decimal point, which a command line can pass on as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount(i64);

impl Amount {
    /// Hundredths of the major unit, rounded half up.
    pub const fn hundredths(self) -> i64 {
        self.0
    }
}

impl Deserr<Faults> for Amount {
    fn deserialize_from_value<V: IntoValue>(value: Value<V>, at: ValuePointerRef<'_>) -> Result<Self, Faults> {
        let digits = match (number_text(&value), value) {
            (Some(number), _) => number,
            (None, Value::String(text)) if is_decimal(&text) => text,
            (None, Value::Null) => return Err(other_kind(ValueKind::Null, ValueKind::Float, at)),
            (None, _) => return Err(fault(at, "must be a number or a string of digits such as 1234.50")),
        };
        hundredths(&digits).map(Self).map_err(|what| fault(at, what))
    }
}

fn is_decimal(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    text.len() <= TEXT_MAX && digits(whole) && digits(fraction)
}

/// The address of a hosted proposal: `https://` or `http://`, at most 2,000 characters, with or without a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link(String);

impl Link {
    fn parse(sent: &str) -> Result<Self, &'static str> {
        let sent = sent.trim();
        if sent.contains(['"', '<', '>', '^', '`', '{', '|', '}']) {
            return Err("must have characters that a URL cannot have percent-encoded");
        }
        // A receiver's URL has no fragment, a link may have one, of the characters that a path has.
        ReceiverUrl::parse(&sent.replacen('#', "/", 1))?;
        Ok(Self(sent.to_owned()))
    }

    /// The address as sent, trimmed.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deserr<Faults> for Link {
    fn deserialize_from_value<V: IntoValue>(value: Value<V>, at: ValuePointerRef<'_>) -> Result<Self, Faults> {
        from_string(value, at, Self::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_an_http_or_https_url() {
        for link in [
            "https://proposals.example/p/1",
            "http://proposals.example",
            " https://proposals.example/app#/p/1?x=y ",
            "https://proposals.example#p",
        ] {
            assert_eq!(Link::parse(link).map(|link| link.0), Ok(link.trim().to_owned()));
        }
        for text in [
            "", "proposals.example/p/1", "javascript:alert(1)", "ftp://proposals.example/p", "https://", "https://#p",
            "https://user@proposals.example/", "https://proposals.example/a b", "https://proposals.example/#<b>",
            "https://proposals.example/#a#b",
        ] {
            assert!(Link::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_link_has_a_limit() {
        let link = |length: usize| format!("https://a.example/{}", "x".repeat(length - 18));
        assert!(Link::parse(&link(2_000)).is_ok());
        assert_eq!(Link::parse(&link(2_001)), Err("must have at most 2000 characters"));
    }
}
