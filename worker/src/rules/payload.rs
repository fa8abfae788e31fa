//! The fields of a payload. A field is parsed only when a rule reads it.
//!
//! Reading a field has three outcomes: a value; no value (absent, null or blank text); or rejected, because the
//! value is invalid. A rejected field counts as absent, and [`FieldReader`] names it in `warnings` (D15). Rules that need a field read
//! it themselves: without a valid `appliedRupees`, for example, the event fails.

use super::{InternalError, Warnings};
use chrono::{DateTime, SubsecRound, Utc};
use common::event::Fields;
use common::model::{self, parse_instant, text};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

/// The field's value is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rejected;

/// The result of reading a field: a value, no value, or rejected.
pub(crate) type FieldResult<T> = Result<Option<T>, Rejected>;

/// The fields of a JSON object, each as the bytes that were sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Payload<'a>(Fields<'a>);

impl<'a> Payload<'a> {
    /// The fields of an envelope's payload; empty if it has no payload.
    pub(crate) fn of(payload: Option<&'a RawValue>) -> Result<Self, InternalError> {
        payload.map_or_else(
            || Ok(Self::default()),
            |raw| Self::object(raw).map_err(|Rejected| InternalError("a payload is an object")),
        )
    }

    /// The fields of a JSON object.
    pub(crate) fn object(raw: &'a RawValue) -> Result<Self, Rejected> {
        parse(raw).map(Self)
    }

    /// The field, unless it is absent or null.
    pub(crate) fn get(&self, field: &str) -> Option<&'a RawValue> {
        self.0.get(field)
    }

    /// Reads a field with `read`, unless it is absent or null.
    pub(crate) fn read<T>(&self, field: &str, read: impl FnOnce(&'a RawValue) -> FieldResult<T>) -> FieldResult<T> {
        self.get(field).map_or(Ok(None), read)
    }
}

/// Reads fields of a payload and adds a warning for each rejected one.
#[derive(Debug)]
pub(crate) struct FieldReader<'r, 'a> {
    pub(crate) payload: &'r Payload<'a>,
    /// First part of the warnings, such as `brief_field_rejected`.
    pub(crate) kind: &'static str,
    pub(crate) warnings: &'r mut Warnings,
}

impl<'a> FieldReader<'_, 'a> {
    /// Reads a field. A rejected one is added to the warnings and counts as absent.
    pub(crate) fn field<T>(&mut self, field: &str, read: impl FnOnce(&'a RawValue) -> FieldResult<T>) -> Option<T> {
        self.payload.read(field, read).unwrap_or_else(|Rejected| {
            self.warnings.push_rejected(self.kind, field);
            None
        })
    }
}

/// Parses a value whose valid forms are those of its Rust type. Numbers have readers of their own, [`whole`] and [`amount`].
pub(crate) fn parse<'a, T: serde::Deserialize<'a>>(raw: &'a RawValue) -> Result<T, Rejected> {
    serde_json::from_str(raw.get()).map_err(|_| Rejected)
}

pub(crate) fn number(raw: &RawValue) -> Result<&str, Rejected> {
    let number = raw.get();
    let is_number = number.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    is_number.then_some(number).ok_or(Rejected)
}

/// A whole number, however it is written (D38).
pub(crate) fn whole(raw: &RawValue) -> FieldResult<i64> {
    model::whole(number(raw)?).map(Some).ok_or(Rejected)
}

/// An amount in major units, not negative, with at most 15 significant digits (D38).
pub(crate) fn amount(raw: &RawValue) -> FieldResult<f64> {
    model::amount(number(raw)?).map(Some).map_err(|_| Rejected)
}

/// Like [`parse`], as the `read` argument of [`FieldReader::field`].
pub(crate) fn typed<T: DeserializeOwned>(raw: &RawValue) -> FieldResult<T> {
    parse(raw).map(Some)
}

pub(crate) fn as_sent(raw: &RawValue) -> FieldResult<Value> {
    typed(raw)
}

/// A text of at most `max` characters, trimmed.
pub(crate) fn trimmed(max: usize) -> impl Fn(&RawValue) -> FieldResult<String> {
    move |raw| limited(parse::<String>(raw)?.trim(), max)
}

/// A text of at most `max` characters, as sent.
pub(crate) fn verbatim(max: usize) -> impl Fn(&RawValue) -> FieldResult<String> {
    move |raw| limited(&parse::<String>(raw)?, max)
}

/// A text of at most `max` characters, as sent, even if it is blank.
pub(crate) fn verbatim_or_blank(max: usize) -> impl Fn(&RawValue) -> FieldResult<String> {
    move |raw| {
        let sent: String = parse(raw)?;
        if text::fits(&sent, max) { Ok(Some(sent)) } else { Err(Rejected) }
    }
}

/// Checks the length of a text. Blank text is no value.
fn limited(sent: &str, max: usize) -> FieldResult<String> {
    if text::is_blank(sent) {
        return Ok(None);
    }
    if text::fits(sent, max) { Ok(Some(sent.to_owned())) } else { Err(Rejected) }
}

/// An RFC 3339 time with an offset, truncated to the microseconds that the database stores, so that it compares the same
/// before and after it was stored.
pub(crate) fn instant(raw: &RawValue) -> FieldResult<DateTime<Utc>> {
    let sent: String = parse(raw)?;
    let at = parse_instant(&sent).ok_or(Rejected)?;
    Ok(Some(at.trunc_subsecs(6)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> &RawValue {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn numbers_count_by_their_value_and_strings_are_none() {
        assert_eq!((whole(raw("-0.0")), whole(raw("2e0"))), (Ok(Some(0)), Ok(Some(2))));
        assert_eq!((whole(raw("2.5")), amount(raw("-1"))), (Err(Rejected), Err(Rejected)));
        for other in [r#""2""#, "true", "[2]", "{}"] {
            assert_eq!((whole(raw(other)), amount(raw(other))), (Err(Rejected), Err(Rejected)), "{other}");
        }
    }

    #[test]
    fn null_counts_as_absent_and_the_last_of_a_repeated_name_counts() {
        let payload = Payload::object(raw(r#"{"a": null, "b": 1, "b": 2, "\u0063": 3}"#)).unwrap();
        assert_eq!(payload.get("a").map(RawValue::get), None);
        assert_eq!(payload.get("b").map(RawValue::get), Some("2"));
        assert_eq!(payload.get("c").map(RawValue::get), Some("3"));
        assert!(Payload::of(None).unwrap().get("a").is_none());
        assert!(Payload::of(Some(raw("[]"))).is_err());
    }

    #[test]
    fn text_is_a_value_blank_or_rejected() {
        assert_eq!(trimmed(3)(raw(r#"" äöü ""#)), Ok(Some("äöü".to_owned())));
        assert_eq!(verbatim(5)(raw(r#"" äöü ""#)), Ok(Some(" äöü ".to_owned())));
        assert_eq!(trimmed(3)(raw(r#""  ""#)), Ok(None));
        for wrong in [r#""abcd""#, "1", "true", "{}", "[]"] {
            assert_eq!(trimmed(3)(raw(wrong)), Err(Rejected), "{wrong}");
        }
    }

    #[test]
    fn a_rejected_field_gives_a_warning_and_counts_as_absent() {
        let payload = Payload::object(raw(r#"{"a": 1, "b": "x"}"#)).unwrap();
        let mut warnings = Warnings::default();
        let mut reader = FieldReader { payload: &payload, kind: "kind", warnings: &mut warnings };
        assert_eq!(reader.field("a", trimmed(9)), None);
        assert_eq!(reader.field("b", trimmed(9)), Some("x".to_owned()));
        assert_eq!(reader.field("c", trimmed(9)), None);
        assert_eq!(warnings.into_vec(), ["kind:a"]);
    }
}
