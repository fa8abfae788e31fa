//! Amounts of money as whole hundredths of the major unit, so that sums are exact.

/// Digits of the largest amount in hundredths: below 10^13 major units, what a `numeric(15, 2)` holds.
const DIGITS_MAX: usize = 15;
/// The first amount in hundredths that is too large.
const LIMIT: i64 = 1_000_000_000_000_000;

/// The hundredths of an amount in major units, rounded half up. The decimal digits are parsed exactly, so that 1.005 gives
/// 101. `None` for a negative or too large amount. `number` must have the form of a JSON number.
pub fn hundredths(number: &str) -> Option<i64> {
    let unsigned = number.trim_start_matches('-');
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return Some(0);
    }
    if number.starts_with('-') {
        return None;
    }
    let leading_zeros = i64::try_from(digits.len() - significant.len()).ok()?;
    let point = i64::try_from(whole.len()).ok()? - leading_zeros + 2;
    round(significant, point.saturating_add(parse_exponent(exponent)))
}

/// Parses an exponent; one beyond `i64` is replaced by half of the limit, so that sums do not overflow.
fn parse_exponent(exponent: &str) -> i64 {
    let end = if exponent.starts_with('-') { i64::MIN / 2 } else { i64::MAX / 2 };
    exponent.parse().unwrap_or(end)
}

/// The whole number before the decimal point at `point`, rounded half up. `digits` has no leading zero.
fn round(digits: &str, point: i64) -> Option<i64> {
    let Ok(point) = usize::try_from(point) else { return Some(0) };
    if point > DIGITS_MAX {
        return None;
    }
    let kept: String = digits.chars().chain(std::iter::repeat('0')).take(point).collect();
    let kept: i64 = if kept.is_empty() { 0 } else { kept.parse().ok()? };
    let up = digits.as_bytes().get(point).is_some_and(|next| *next >= b'5');
    Some(kept + i64::from(up)).filter(|cents| *cents < LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_exactly_and_rounded_half_up() {
        let table = [
            ("0", 0),
            ("-0", 0),
            ("-0.0e7", 0),
            ("12", 1200),
            ("12.3", 1230),
            ("12.34", 1234),
            ("1.005", 101),
            ("1.00499999", 100),
            ("0.005", 1),
            ("0.0049", 0),
            ("0.00000001", 0),
            ("1e3", 100_000),
            ("1.5E+2", 15_000),
            ("125e-2", 125),
            ("5e-3", 1),
            ("49e-4", 0),
            ("1e-300", 0),
            ("0e999999999999999999999", 0),
            ("1e-99999999999999999999", 0),
            ("0.1e1", 100),
            ("9999999999999.99", 999_999_999_999_999),
            ("9007199254740.993", 900_719_925_474_099),
        ];
        for (number, cents) in table {
            assert_eq!(hundredths(number), Some(cents), "{number}");
        }
    }

    #[test]
    fn negative_and_too_large_amounts_are_refused() {
        for number in ["-1", "-0.001", "1e13", "9999999999999.995", "1e300"] {
            assert_eq!(hundredths(number), None, "{number}");
        }
    }
}
