//! A payload's fields, unparsed until a rule reads them.
//!
//! Reading a field has three outcomes: a value, nothing stated (absent, null, blank text), or rejected: what
//! was sent can't be read. A rejected field never fails its event, it is named in `warnings` (D15).

use super::{InternalError, Warnings};
use chrono::{DateTime, SubsecRound, Utc};
use common::model::text;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;

/// What was sent can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected;

/// A value, nothing stated, or rejected.
pub type Read<T> = Result<Option<T>, Rejected>;

/// The fields of a JSON object, each the bytes it came as. Of a repeated name the last one counts.
#[derive(Clone, Debug, Default)]
pub struct Payload<'a> {
    fields: HashMap<Cow<'a, str>, &'a RawValue>,
}

impl<'a> Payload<'a> {
    /// The fields of an envelope's payload; none when it has no payload.
    pub fn of(payload: Option<&'a RawValue>) -> Result<Self, InternalError> {
        payload.map_or_else(
            || Ok(Self::default()),
            |raw| Self::object(raw).map_err(|Rejected| InternalError("a payload is an object")),
        )
    }

    /// The fields of an object.
    pub fn object(raw: &'a RawValue) -> Result<Self, Rejected> {
        parse(raw).map(|fields| Self { fields })
    }

    /// The field, unless it is absent or null.
    pub fn get(&self, field: &str) -> Option<&'a RawValue> {
        self.fields.get(field).copied().filter(|value| value.get() != "null")
    }

    /// Reads a field.
    pub fn read<T>(&self, field: &str, read: impl FnOnce(&'a RawValue) -> Read<T>) -> Read<T> {
        self.get(field).map_or(Ok(None), read)
    }
}

/// Reads fields of a payload and names the rejected ones in warnings of one kind.
#[derive(Debug)]
pub struct Reader<'r, 'a> {
    /// The fields.
    pub payload: &'r Payload<'a>,
    /// What rejected fields are warned of as, such as `brief_field_rejected`.
    pub kind: &'static str,
    /// Where the warnings go.
    pub warnings: &'r mut Warnings,
}

impl<'a> Reader<'_, 'a> {
    /// Reads a field; a rejected one is warned of and counts as not stated.
    pub fn field<T>(&mut self, field: &str, read: impl FnOnce(&'a RawValue) -> Read<T>) -> Option<T> {
        self.payload.read(field, read).unwrap_or_else(|Rejected| {
            self.warnings.rejected(self.kind, field);
            None
        })
    }
}

/// Reads a value whose Rust type says all about what it may be.
pub fn parse<'a, T: serde::Deserialize<'a>>(raw: &'a RawValue) -> Result<T, Rejected> {
    serde_json::from_str(raw.get()).map_err(|_| Rejected)
}

/// [`parse`] as a reading of a field.
pub fn typed<T: DeserializeOwned>(raw: &RawValue) -> Read<T> {
    parse(raw).map(Some)
}

/// The value as it was sent.
pub fn as_sent(raw: &RawValue) -> Read<Value> {
    typed(raw)
}

/// A text of at most `max` characters, trimmed.
pub fn trimmed(max: usize) -> impl Fn(&RawValue) -> Read<String> {
    move |raw| limited(parse::<String>(raw)?.trim(), max)
}

/// A text of at most `max` characters, as sent.
pub fn verbatim(max: usize) -> impl Fn(&RawValue) -> Read<String> {
    move |raw| limited(&parse::<String>(raw)?, max)
}

/// A text of at most `max` characters, as sent, be it blank.
pub fn within(max: usize) -> impl Fn(&RawValue) -> Read<String> {
    move |raw| {
        let sent: String = parse(raw)?;
        if text::fits(&sent, max) { Ok(Some(sent)) } else { Err(Rejected) }
    }
}

/// Blank text states nothing.
fn limited(sent: &str, max: usize) -> Read<String> {
    if sent.trim().is_empty() {
        return Ok(None);
    }
    if text::fits(sent, max) { Ok(Some(sent.to_owned())) } else { Err(Rejected) }
}

/// An RFC 3339 instant with an offset, in the microseconds that the database holds, so that it compares alike
/// before and after it was stored.
pub fn instant(raw: &RawValue) -> Read<DateTime<Utc>> {
    let sent: String = parse(raw)?;
    let separated = matches!(sent.as_bytes().get(10), Some(b'T' | b't'));
    let at = DateTime::parse_from_rfc3339(&sent).ok().filter(|_| separated).ok_or(Rejected)?;
    Ok(Some(at.to_utc().trunc_subsecs(6)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> &RawValue {
        serde_json::from_str(json).unwrap()
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
    fn text_is_stated_blank_or_rejected() {
        assert_eq!(trimmed(3)(raw(r#"" äöü ""#)), Ok(Some("äöü".to_owned())));
        assert_eq!(verbatim(5)(raw(r#"" äöü ""#)), Ok(Some(" äöü ".to_owned())));
        assert_eq!(trimmed(3)(raw(r#""  ""#)), Ok(None));
        for wrong in [r#""abcd""#, "1", "true", "{}", "[]"] {
            assert_eq!(trimmed(3)(raw(wrong)), Err(Rejected), "{wrong}");
        }
    }

    #[test]
    fn an_instant_needs_an_offset_and_compares_whatever_it_is() {
        let paris = instant(raw(r#""2026-05-01T12:00:00.1234569+02:00""#)).unwrap();
        assert_eq!(paris, instant(raw(r#""2026-05-01T10:00:00.123456Z""#)).unwrap());
        for wrong in [
            r#""2026-05-01T12:00:00""#,
            r#""2026-05-01 12:00:00Z""#,
            r#""2026-05-01""#,
            "1777629600",
            r#""""#,
        ] {
            assert_eq!(instant(raw(wrong)), Err(Rejected), "{wrong}");
        }
    }

    #[test]
    fn a_rejected_field_is_named_and_counts_as_not_stated() {
        let payload = Payload::object(raw(r#"{"a": 1, "b": "x"}"#)).unwrap();
        let mut warnings = Warnings::default();
        let mut reader = Reader { payload: &payload, kind: "kind", warnings: &mut warnings };
        assert_eq!(reader.field("a", trimmed(9)), None);
        assert_eq!(reader.field("b", trimmed(9)), Some("x".to_owned()));
        assert_eq!(reader.field("c", trimmed(9)), None);
        assert_eq!(warnings.into_vec(), ["kind:a"]);
    }
}
