//! Converts amounts of money between JSON numbers of major units and exact hundredths.

use super::payload::{FieldResult, Rejected, number, parse};
use crate::state::Money;
use common::model::{hundredths, is_currency};
use serde_json::Value;
use serde_json::value::RawValue;

/// Parses a JSON number of major units: not negative, below 10^13, with at most 15 significant digits, rounded half up
/// to hundredths.
pub(crate) fn amount(raw: &RawValue) -> FieldResult<Money> {
    hundredths(number(raw)?).map(|cents| Some(Money(cents))).map_err(|_| Rejected)
}

/// An ISO 4217 code (D22).
pub(crate) fn currency(raw: &RawValue) -> FieldResult<String> {
    let code: String = parse(raw)?;
    if is_currency(&code) { Ok(Some(code)) } else { Err(Rejected) }
}

/// The amount as a JSON number of major units.
pub(crate) fn to_json(money: Money) -> Value {
    if money.0 % 100 == 0 { Value::from(money.0 / 100) } else { Value::from(money.0 as f64 / 100.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(json: &str) -> Option<i64> {
        let raw: &RawValue = serde_json::from_str(json).unwrap();
        amount(raw).ok().flatten().map(|money| money.0)
    }

    #[test]
    fn invalid_amounts_are_rejected() {
        for json in ["-1", "-0.001", "1e13", "9999999999999.995", "1e300", r#""12""#, "true", "{}", "[1]"] {
            assert_eq!(read(json), None, "{json}");
        }
    }

    proptest! {
        #[test]
        fn written_amounts_parse_to_the_same_value(cents in 0_i64..1_000_000_000_000_000) {
            prop_assert_eq!(read(&to_json(Money(cents)).to_string()), Some(cents));
        }
    }
}
