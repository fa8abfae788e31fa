//! The scalar values of a body. Each type is parsed from one JSON type and refuses others.

use super::fault::{fault, one_of, other_kind};
use crate::event::Faults;
use crate::model::{Email, Phone, Stage, amount, is_country, is_currency, parse_date, text, whole};
use chrono::NaiveDate;
use deserr::{Deserr, IntoValue, Value, ValueKind, ValuePointerRef};

/// Parses a string with `read`, whose error says what is wrong with it.
pub(crate) fn from_string<V: IntoValue, T, E: Into<String>>(
    value: Value<V>, at: ValuePointerRef<'_>, read: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, Faults> {
    let Value::String(sent) = value else {
        return Err(other_kind(value.kind(), ValueKind::String, at));
    };
    read(&sent).map_err(|what| fault(at, what))
}

macro_rules! from_strings {
    ($($leaf:ty = $read:expr;)+) => {$(
        impl Deserr<Faults> for $leaf {
            fn deserialize_from_value<V: IntoValue>(value: Value<V>, at: ValuePointerRef<'_>) -> Result<Self, Faults> {
                from_string(value, at, $read)
            }
        }
    )+};
}

from_strings! {
    Email = |sent| Email::parse(not_blank(sent)?);
    Phone = |sent| Phone::parse(not_blank(sent)?)?.ok_or("must have a digit");
    NaiveDate = |sent| parse_date(sent).ok_or("must be a date that exists, as YYYY-MM-DD");
    Currency = |sent| Currency::parse(sent).ok_or("must be an ISO 4217 currency code");
    Nationality = |sent| Nationality::parse(sent).ok_or("must be an assigned ISO 3166-1 alpha-2 code, or empty");
    // Any known stage; which of them may be set is decided by the rules (D21).
    Stage = |sent| Stage::parse(sent).ok_or_else(|| one_of(&Stage::ALL.map(Stage::as_str)));
}

fn not_blank(sent: &str) -> Result<&str, &'static str> {
    if text::is_blank(sent) { Err("must not be empty") } else { Ok(sent) }
}

/// A number as the readers of `model::number` take it. Of a fraction, these are the shortest digits that give the same double:
/// those that were sent, or others that are read as the same value.
pub(crate) fn number_text<V: IntoValue>(value: &Value<V>) -> Option<String> {
    match value {
        Value::Integer(number) => Some(number.to_string()),
        Value::NegativeInteger(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Null | Value::Boolean(_) | Value::String(_) | Value::Sequence(_) | Value::Map(_) => None,
    }
}

/// The passport country of a party (D22).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nationality {
    /// The empty string, which removes the stored value.
    Cleared,
    /// An assigned ISO 3166-1 alpha-2 code, upper case.
    Country(String),
}

impl Nationality {
    fn parse(sent: &str) -> Option<Self> {
        if sent.is_empty() {
            return Some(Self::Cleared);
        }
        is_country(sent).then(|| Self::Country(sent.to_owned()))
    }

    /// The code; `None` when it is cleared.
    pub fn into_option(self) -> Option<String> {
        match self {
            Self::Cleared => None,
            Self::Country(code) => Some(code),
        }
    }
}

/// An ISO 4217 code, upper case (D22).
pub(crate) struct Currency(pub(crate) String);

impl Currency {
    fn parse(sent: &str) -> Option<Self> {
        is_currency(sent).then(|| Self(sent.to_owned()))
    }
}

/// An amount in major units, not negative, with at most 15 significant digits (D38).
pub(super) struct Amount(pub(super) f64);

impl Deserr<Faults> for Amount {
    fn deserialize_from_value<V: IntoValue>(value: Value<V>, at: ValuePointerRef<'_>) -> Result<Self, Faults> {
        let number = number_text(&value).ok_or_else(|| other_kind(value.kind(), ValueKind::Float, at))?;
        amount(&number).map(Self).map_err(|what| fault(at, what))
    }
}

/// A whole number from 0 to `MAX`, however it is written (D38).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole<const MAX: u32>(u32);

impl<const MAX: u32> Whole<MAX> {
    /// From 0 to `MAX`.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl<const MAX: u32> Deserr<Faults> for Whole<MAX> {
    fn deserialize_from_value<V: IntoValue>(value: Value<V>, at: ValuePointerRef<'_>) -> Result<Self, Faults> {
        let read = number_text(&value).and_then(|number| whole(&number)).and_then(|number| u32::try_from(number).ok());
        if let Some(number) = read
            && number <= MAX
        {
            return Ok(Self(number));
        }
        if matches!(value, Value::Null) {
            return Err(other_kind(ValueKind::Null, ValueKind::Integer, at));
        }
        Err(fault(at, format!("must be a whole number from 0 to {MAX}")))
    }
}
