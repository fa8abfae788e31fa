//! Objects whose fields are parsed when they are read, and the object of a batch.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// A text, borrowed from the body unless it has escapes.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// The fields of an object, unparsed. There are a dozen, so that searching them costs less than a map of them.
#[derive(Clone, Debug, Default)]
pub struct Fields<'a>(Vec<(Text<'a>, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// The field, unless it is absent or null. Of a repeated name the last one counts.
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        let (_, value) = self.0.iter().rfind(|(field, _)| field.0 == name)?;
        Some(*value).filter(|value| value.get() != "null")
    }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Fields<'de>, A::Error> {
        let mut fields = Vec::with_capacity(8);
        while let Some(entry) = entries.next_entry()? {
            fields.push(entry);
        }
        Ok(Fields(fields))
    }
}

/// The text of each event of a batch, found in the pass that reads its object; `None` without the field `events`, of which the last
/// one counts.
pub(super) struct EventTexts<'a>(pub(super) Option<Vec<&'a RawValue>>);

impl<'de> Deserialize<'de> for EventTexts<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EventTextsVisitor)
    }
}

struct EventTextsVisitor;

impl<'de> Visitor<'de> for EventTextsVisitor {
    type Value = EventTexts<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the object of a batch")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<EventTexts<'de>, A::Error> {
        let mut events = None;
        while let Some(Text(name)) = entries.next_key()? {
            if name == "events" {
                events = entries.next_value()?;
            } else {
                entries.next_value::<IgnoredAny>()?;
            }
        }
        Ok(EventTexts(events))
    }
}
