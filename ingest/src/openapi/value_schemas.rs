//! Schemas of single values: one for each way of reading a value in `common::record`, with the same limits.

use super::schema::{Schema, of_type};
use common::model::text;
use serde_json::Number;

/// A name, a title, an id: not blank, trimmed.
pub(super) fn line(max: usize) -> Schema {
    Schema { pattern: Some(NOT_BLANK), max_length: Some(max), ..of_type("string") }
}

/// Free text: not blank, kept as sent.
pub(super) fn prose(max: usize) -> Schema {
    line(max)
}

/// Any text, also a blank one.
pub(super) fn verbatim(max: usize) -> Schema {
    Schema { max_length: Some(max), ..of_type("string") }
}

pub(super) fn email() -> Schema {
    Schema { format: Some("email"), max_length: Some(text::EMAIL), ..of_type("string") }
}

/// A phone number in any notation.
pub(super) fn phone() -> Schema {
    Schema { pattern: Some(HAS_DIGIT), max_length: Some(text::PHONE), ..of_type("string") }
}

pub(super) fn date() -> Schema {
    Schema { format: Some("date"), ..of_type("string") }
}

pub(super) fn instant() -> Schema {
    Schema { format: Some("date-time"), ..of_type("string") }
}

/// An id assigned by Connect.
pub(super) fn uuid() -> Schema {
    Schema { format: Some("uuid"), ..of_type("string") }
}

/// A whole number from 0 on.
pub(super) fn whole(max: u32) -> Schema {
    Schema { minimum: Some(0.into()), maximum: Some(max.into()), ..of_type("integer") }
}

/// A figure in major units, kept in whole hundredths: below 10^13 (`common::model::hundredths`).
pub(super) fn money() -> Schema {
    Schema { maximum: Number::from_f64(9_999_999_999_999.99), ..amount() }
}

/// A figure in major units.
pub(super) fn amount() -> Schema {
    Schema { minimum: Some(0.into()), ..of_type("number") }
}

/// A currency code (D22).
pub(super) fn currency() -> Schema {
    Schema { format: Some("iso-4217"), pattern: Some("^[A-Z]{3}$"), ..of_type("string") }
}

/// A country code (D22), or the empty text.
pub(super) fn country_or_empty() -> Schema {
    Schema { format: Some("iso-3166-1-alpha-2"), pattern: Some("^([A-Z]{2})?$"), ..of_type("string") }
}

pub(super) fn string() -> Schema {
    of_type("string")
}

pub(super) fn boolean() -> Schema {
    of_type("boolean")
}

/// White space as Unicode defines it, because this is what is trimmed. `\s` is another set in each dialect of patterns.
macro_rules! white_space {
    () => {
        r"\x09-\x0d\x20\x85\xa0\u1680\u2000-\u200a\u2028-\u2029\u202f\u205f\u3000"
    };
}

/// A pattern for text that is not blank.
pub const NOT_BLANK: &str = concat!("[^", white_space!(), "]");
/// A pattern for text that is blank or empty.
pub const BLANK: &str = concat!("^[", white_space!(), "]*$");
/// A pattern for text with a digit.
pub const HAS_DIGIT: &str = "[0-9]";

#[cfg(test)]
mod tests {
    /// Ranges of characters, as a pattern has them.
    fn class(chars: impl Iterator<Item = char>) -> String {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for char in chars.map(u32::from) {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == char => *last = char,
                _ => ranges.push((char, char)),
            }
        }
        let escape = |c: u32| if c < 0x100 { format!(r"\x{c:02x}") } else { format!(r"\u{c:04x}") };
        let range = |(first, last)| match (escape(first), escape(last)) {
            (first, last) if first == last => first,
            (first, last) => format!("{first}-{last}"),
        };
        ranges.into_iter().map(range).collect()
    }

    #[test]
    fn white_space_is_what_is_trimmed() {
        let trimmed = ('\0'..=char::MAX).filter(|c| c.to_string().trim().is_empty());
        assert_eq!(class(trimmed), white_space!());
    }
}
