//! Amounts of money in an action.

use crate::event::Faults;
use crate::model::hundredths;
use crate::record::{fault, number_text, other_kind};
use deserr::{Deserr, IntoValue, Value, ValueKind, ValuePointerRef};

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
    fn deserialize_from_value<V: IntoValue>(
        value: Value<V>,
        at: ValuePointerRef<'_>,
    ) -> Result<Self, Faults> {
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
