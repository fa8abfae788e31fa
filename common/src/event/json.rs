//! A single pass over a body that refuses content which could not be stored or parsed again (D6): invalid UTF-8, lone
//! surrogates, numbers that are out of range, NUL characters, and nesting deeper than 64 levels.

use super::fault::Faults;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Deepest nesting of objects and arrays; the body's outermost one counts.
pub const MAX_DEPTH: u32 = 64;

/// Checks that `body` is one JSON value that the database can store and the worker can parse, and returns its text.
pub(crate) fn check_json(body: &[u8]) -> Result<&str, Faults> {
    if body.is_empty() {
        return Err(Faults::one("", "is empty"));
    }
    let Ok(text) = std::str::from_utf8(body) else {
        // Only this reader says where.
        let read = ValueChecker { depth: 0 }.deserialize(&mut serde_json::Deserializer::from_slice(body));
        return Err(Faults::one("", read.map_or_else(|error| describe(&error), |()| "is not valid JSON".to_owned())));
    };
    let mut reader = serde_json::Deserializer::from_str(text);
    let checked = ValueChecker { depth: 0 }.deserialize(&mut reader).and_then(|()| reader.end());
    checked.map(|()| text).map_err(|error| Faults::one("", describe(&error)))
}

fn describe(error: &serde_json::Error) -> String {
    if error.classify() == serde_json::error::Category::Data {
        error.to_string()
    } else {
        format!("is not valid JSON: {error}")
    }
}

/// Checks every value without keeping it.
struct ValueChecker {
    depth: u32,
}

impl ValueChecker {
    fn inner<E: Error>(&self) -> Result<Self, E> {
        if self.depth == MAX_DEPTH {
            return Err(E::custom("must not nest deeper than 64 levels"));
        }
        Ok(Self { depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for ValueChecker {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueChecker {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        if text.contains('\0') {
            return Err(E::custom("must not contain a NUL character"));
        }
        // The JSON library interprets these names, so that the same body could be parsed in two ways.
        if text.starts_with("$serde_json::private::") {
            return Err(E::custom("must not contain a text that starts with $serde_json::private::"));
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(self.inner()?)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        // A key is a string, so it goes through `visit_str` like any other.
        while entries.next_key_seed(self.inner()?)?.is_some() {
            entries.next_value_seed(self.inner()?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(body: &[u8]) -> String {
        check_json(body).expect_err("should be refused").to_string()
    }

    #[test]
    fn rejects_names_that_the_json_library_interprets() {
        assert!(refusal(br#"{"a":{"$serde_json::private::RawValue":"{}"}}"#).contains("$serde_json"));
        assert!(refusal(br#"{"a":{"\u0024serde_json::private::Number":"1"}}"#).contains("$serde_json"));
    }

    #[test]
    fn accepts_an_escaped_backslash_before_u0000() {
        check_json(br#"{"a":"\\u0000"}"#).unwrap();
    }
}
