//! The single values of bodies and records: one schema for each way of reading a value in `common::record`, with the
//! very limits that it is read with.

use super::schema::{Schema, of_type};
use common::model::text;

/// A name, a title, an id: not blank, trimmed.
pub(super) fn line(max: usize) -> Schema {
    Schema { pattern: Some(NOT_BLANK), max_length: Some(max), ..of_type("string") }
}

/// Somebody's words: not blank, kept as sent.
pub(super) fn prose(max: usize) -> Schema {
    line(max)
}

/// Any text, also a blank one.
pub(super) fn verbatim(max: usize) -> Schema {
    Schema { max_length: Some(max), ..of_type("string") }
}

/// An email address.
pub(super) fn email() -> Schema {
    Schema { format: Some("email"), max_length: Some(text::EMAIL), ..of_type("string") }
}

/// A phone, however it is written.
pub(super) fn phone() -> Schema {
    Schema { pattern: Some(HAS_DIGIT), max_length: Some(text::PHONE), ..of_type("string") }
}

/// A calendar date.
pub(super) fn date() -> Schema {
    Schema { format: Some("date"), ..of_type("string") }
}

/// An instant.
pub(super) fn instant() -> Schema {
    Schema { format: Some("date-time"), ..of_type("string") }
}

/// An id of ours.
pub(super) fn uuid() -> Schema {
    Schema { format: Some("uuid"), ..of_type("string") }
}

/// A whole number from 0 on.
pub(super) fn whole(max: u32) -> Schema {
    Schema { minimum: Some(0), maximum: Some(max), ..of_type("integer") }
}

/// A figure in major units.
pub(super) fn amount() -> Schema {
    Schema { minimum: Some(0), ..of_type("number") }
}

/// A currency code (D22).
pub(super) fn currency() -> Schema {
    Schema { format: Some("iso-4217"), pattern: Some("^[A-Z]{3}$"), ..of_type("string") }
}

/// A country code (D22), or the empty text.
pub(super) fn country_or_empty() -> Schema {
    Schema { format: Some("iso-3166-1-alpha-2"), pattern: Some("^([A-Z]{2})?$"), ..of_type("string") }
}

/// Text.
pub(super) fn string() -> Schema {
    of_type("string")
}

/// True or false.
pub(super) fn boolean() -> Schema {
    of_type("boolean")
}

/// What isn't white space throughout.
pub(super) const NOT_BLANK: &str = r"\S";
/// What has a digit.
pub(super) const HAS_DIGIT: &str = "[0-9]";
