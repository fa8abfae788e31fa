//! Numbers, read from the text of a JSON number by their value: `2.0`, `2e0` and `2` are equal, `-0.0` is 0 (D34, D38).

use chrono::{DateTime, Datelike, TimeDelta, Utc};

/// Significant digits that an amount may have (D38).
const SIGNIFICANT_MAX: usize = 15;
/// Digits of the largest amount in hundredths: below 10^13 major units, what a `numeric(15, 2)` holds.
const DIGITS_MAX: i64 = 15;
/// The first amount in hundredths that is too large.
const LIMIT: i64 = 1_000_000_000_000_000;
const TOO_LARGE: &str = "must be below 10000000000000";
/// Digits of the largest whole number that is read.
const WHOLE_MAX: i64 = 19;

/// The value of a JSON number: `0.<digits>` times ten to the power of `point`.
#[derive(Debug)]
struct Decimal {
    is_negative: bool,
    /// Without zeros at the start and the end; empty for 0.
    digits: String,
    point: i64,
}

impl Decimal {
    /// `number` must have the form of a JSON number.
    fn parse(number: &str) -> Self {
        let unsigned = number.trim_start_matches('-');
        let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = [whole, fraction].concat();
        let significant = digits.trim_start_matches('0');
        let point = whole.len() as i64 - (digits.len() - significant.len()) as i64;
        Self {
            is_negative: number.starts_with('-') && !significant.is_empty(),
            digits: significant.trim_end_matches('0').to_owned(),
            point: point.saturating_add(parse_exponent(exponent)),
        }
    }

    /// A decimal that can be an amount. The error says what is wrong with it.
    fn amount(number: &str) -> Result<Self, &'static str> {
        let read = Self::parse(number);
        if read.is_negative {
            return Err("must not be negative");
        }
        if read.digits.len() > SIGNIFICANT_MAX {
            return Err("must have at most 15 significant digits");
        }
        Ok(read)
    }

    /// The digits before the decimal point, of which there are at most 19, and the one behind it.
    fn whole_part(&self) -> (i128, u8) {
        let Ok(count) = usize::try_from(self.point) else { return (0, b'0') };
        let mut digits = self.digits.bytes().chain(std::iter::repeat(b'0'));
        let whole = digits
            .clone()
            .take(count)
            .fold(0_i128, |sum, digit| sum.saturating_mul(10).saturating_add(i128::from(digit - b'0')));
        (whole, digits.nth(count).unwrap_or(b'0'))
    }
}

/// A whole number of up to 19 digits, however it is written. `None` for others.
pub fn whole(number: &str) -> Option<i64> {
    let read = Decimal::parse(number);
    if read.digits.is_empty() {
        return Some(0);
    }
    if read.point > WHOLE_MAX || read.digits.len() as i64 > read.point {
        return None;
    }
    let (whole, _) = read.whole_part();
    i64::try_from(if read.is_negative { -whole } else { whole }).ok()
}

/// An amount in major units, not negative, with at most 15 significant digits, which a double holds exactly as written. The
/// error says what is wrong with it.
pub fn amount(number: &str) -> Result<f64, &'static str> {
    Decimal::amount(number)?;
    let amount = number.parse().ok().filter(|amount: &f64| amount.is_finite());
    amount.map(|amount| amount + 0.0).ok_or("must be a number")
}

/// The hundredths of an [`amount`] below 10^13 major units, rounded half up: 1.005 gives 101.
/// The error says what is wrong with it.
pub fn hundredths(number: &str) -> Result<i64, &'static str> {
    let mut read = Decimal::amount(number)?;
    if read.digits.is_empty() {
        return Ok(0);
    }
    read.point = read.point.saturating_add(2);
    if read.point > DIGITS_MAX {
        return Err(TOO_LARGE);
    }
    let (whole, next) = read.whole_part();
    // A point left of the first digit: 0.004 is less than half a hundredth, whatever its first digit is.
    let up = read.point >= 0 && next >= b'5';
    i64::try_from(whole + i128::from(up)).ok().filter(|cents| *cents < LIMIT).ok_or(TOO_LARGE)
}

/// Parses an exponent; one beyond `i64` is replaced by half of the limit, so that sums do not overflow.
fn parse_exponent(exponent: &str) -> i64 {
    let end = if exponent.starts_with('-') { i64::MIN / 2 } else { i64::MAX / 2 };
    exponent.parse().unwrap_or(end)
}

/// Parses an RFC 3339 date-time with an offset, in ASCII. In UTC it must lie in the years 1 to 9999, because others cannot be
/// formatted as RFC 3339. A leap second is the first of the next minute, because few programs can read `:60`.
pub fn parse_instant(text: &str) -> Option<DateTime<Utc>> {
    // The library also reads a blank between date and time, and U+2212 as a minus.
    let is_rfc_3339 = text.is_ascii() && matches!(text.as_bytes().get(10), Some(b'T' | b't'));
    let at = is_rfc_3339.then(|| DateTime::parse_from_rfc3339(text).ok()).flatten()?.to_utc();
    // The library has it as a second with two thousand milliseconds.
    let at = DateTime::from_timestamp(at.timestamp(), 0)? + TimeDelta::nanoseconds(at.timestamp_subsec_nanos().into());
    (1..=9999).contains(&at.year()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_exactly_and_rounded_half_up() {
        let rows = "0=0 -0=0 -0.0e7=0 12=1200 12.3=1230 12.34=1234 1.005=101 1.00499999=100 0.005=1 0.0049=0 \
            0.00000001=0 1e3=100000 1.5E+2=15000 125e-2=125 5e-3=1 49e-4=0 1e-300=0 0e999999999999999999999=0 \
            1e-99999999999999999999=0 0.1e1=100 9999999999999.99=999999999999999 900719925474.9900=90071992547499";
        for (number, cents) in rows.split(' ').map(|row| row.split_once('=').unwrap()) {
            assert_eq!(hundredths(number), Ok(cents.parse().unwrap()), "{number}");
        }
    }

    #[test]
    fn amounts_are_not_negative_and_have_at_most_15_significant_digits() {
        for number in ["-1", "-0.001", "1234567890.1234567", "0.1000000000000000055", "1000000000000001"] {
            assert!(hundredths(number).is_err() && amount(number).is_err(), "{number}");
        }
        for number in ["1e13", "1e300"] {
            assert_eq!(hundredths(number), Err(TOO_LARGE), "{number}");
        }
        for (number, value) in
            [("-0.0", 0.0), ("1e3", 1000.0), ("0.10", 0.1), ("123456789012345000", 123_456_789_012_345_000.0)]
        {
            assert_eq!(amount(number).map(f64::to_bits), Ok(f64::to_bits(value)), "{number}");
        }
    }

    #[test]
    fn whole_numbers_count_by_their_value() {
        let counted = "2=2 2.0=2 2e0=2 20e-1=2 0.2E+1=2 -0.0=0 -0e5=0 0.000=0 1.5e1=15 -3.00=-3 \
            1e18=1000000000000000000 9007199254740993=9007199254740993 9223372036854775807=9223372036854775807 \
            -9223372036854775808=-9223372036854775808";
        for (number, value) in counted.split(' ').map(|row| row.split_once('=').unwrap()) {
            assert_eq!(whole(number), Some(value.parse().unwrap()), "{number}");
        }
        for number in
            ["2.5", "1e-1", "1e19", "9223372036854775808", "99999999999999999999", "0.5", "2.0000000000000000001"]
        {
            assert_eq!(whole(number), None, "{number}");
        }
    }

    #[test]
    fn instants_have_an_offset_and_a_year_from_1_to_9999() {
        let noon = parse_instant("2026-05-01T12:00:00Z");
        assert!(noon.is_some());
        for same in ["2026-05-01t12:00:00z", "2026-05-01T07:00:00-05:00", "2026-05-01T12:00:00.000+00:00"] {
            assert_eq!(parse_instant(same), noon, "{same}");
        }
        for same in ["2026-05-01T11:59:60Z", "2026-05-01T12:59:60.000+01:00"] {
            assert_eq!(parse_instant(same), noon, "{same}");
        }
        for wrong in [
            "", "2026-05-01", "2026-05-01T12:00:00", "2026-05-01 12:00:00Z", "2026-01-01T10:00:00\u{2212}05:00",
            "9999-12-31T23:59:59-01:00", "9999-12-31T23:59:60Z", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00",
            "+10000-01-01T00:00:00Z",
        ] {
            assert_eq!(parse_instant(wrong), None, "{wrong}");
        }
    }
}
