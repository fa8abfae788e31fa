//! A parsed body. Unlike `serde_json::Value` it keeps the order of fields, so that faults are reported in the order of the
//! body, and repeated fields, so that they can be refused.

use super::fault::{FAULTS_MAX, place};
use crate::event::Faults;
use crate::model::{amount, whole};
use deserr::{IntoValue, Map, Value, ValueKind, ValuePointerRef};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::collections::HashSet;
use std::fmt;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean(bool),
    /// A whole number from 0 on.
    Whole(u64),
    /// A whole number below 0.
    Negative(i64),
    /// Written with a fraction or an exponent, or too large for the others.
    Float(f64),
    /// A string, without its escapes.
    Text(String),
    Array(Vec<Node>),
    Object(Fields),
}

/// The fields of an object, in their order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fields(pub(super) Vec<(String, Node)>);

impl Node {
    /// Reads one JSON value.
    pub(super) fn parse(json: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(json)
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Builder)
    }
}

struct Builder;

impl<'de> Visitor<'de> for Builder {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Boolean(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Whole(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(u64::try_from(value).map_or(Node::Negative(value), Node::Whole))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element()? {
            array.push(item);
        }
        Ok(Node::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = entries.next_entry()? {
            fields.push(field);
        }
        Ok(Node::Object(Fields(fields)))
    }
}

impl IntoValue for Node {
    type Sequence = Vec<Node>;
    type Map = Fields;

    fn kind(&self) -> ValueKind {
        match self {
            Self::Null => ValueKind::Null,
            Self::Boolean(_) => ValueKind::Boolean,
            Self::Whole(_) => ValueKind::Integer,
            Self::Negative(_) => ValueKind::NegativeInteger,
            Self::Float(_) => ValueKind::Float,
            Self::Text(_) => ValueKind::String,
            Self::Array(_) => ValueKind::Sequence,
            Self::Object(_) => ValueKind::Map,
        }
    }

    fn into_value(self) -> Value<Self> {
        match self {
            Self::Null => Value::Null,
            Self::Boolean(value) => Value::Boolean(value),
            Self::Whole(value) => Value::Integer(value),
            Self::Negative(value) => Value::NegativeInteger(value),
            Self::Float(value) => Value::Float(value),
            Self::Text(value) => Value::String(value),
            Self::Array(items) => Value::Sequence(items),
            Self::Object(fields) => Value::Map(fields),
        }
    }
}

impl Map for Fields {
    type Value = Node;
    type Iter = std::vec::IntoIter<(String, Node)>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn remove(&mut self, key: &str) -> Option<Node> {
        let at = self.0.iter().position(|(name, _)| name == key)?;
        Some(self.0.remove(at).1)
    }

    fn into_iter(self) -> Self::Iter {
        self.0.into_iter()
    }
}

/// A number that every field refuses for its digits.
const MANY_DIGITS: &str = "1.000000000000001";

/// Replaces each number of a JSON text that would be read otherwise as a double.
pub(super) fn replace_long_numbers(json: &str) -> String {
    let mut replaced = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(start) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        let (before, token) = rest.split_at(start);
        let is_text = token.starts_with('"');
        let end = if is_text { text_end(token) } else { token.find(|c| !is_of_number(c)) };
        let (token, behind) = token.split_at(end.unwrap_or(token.len()));
        replaced.push_str(before);
        replaced.push_str(if is_text || is_read_alike(token) { token } else { MANY_DIGITS });
        rest = behind;
    }
    replaced + rest
}

fn is_of_number(c: char) -> bool {
    c.is_ascii_digit() || "+-.eE".contains(c)
}

fn text_end(text: &str) -> Option<usize> {
    // So that the first quotation mark does not end it.
    let mut is_escaped = true;
    let last = text.find(|c| {
        let is_last = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_last
    });
    last.map(|last| last + 1)
}

fn is_read_alike(number: &str) -> bool {
    let double = number.parse::<f64>().unwrap_or_default().to_string();
    whole(number) == whole(&double) && amount(number) == amount(&double)
}

/// A fault for each repetition of a field, at most [`FAULTS_MAX`].
pub(super) fn find_repeated_fields(tree: &Node) -> Faults {
    let mut faults = Faults::default();
    collect_repeated(tree, ValuePointerRef::Origin, &mut faults);
    faults
}

fn collect_repeated(node: &Node, at: ValuePointerRef<'_>, faults: &mut Faults) {
    match node {
        Node::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                collect_repeated(item, at.push_index(i), faults);
            }
        }
        Node::Object(Fields(fields)) => {
            let mut seen = HashSet::with_capacity(fields.len());
            for (name, value) in fields {
                let here = at.push_key(name);
                if !seen.insert(name) && faults.0.len() < FAULTS_MAX {
                    faults.push(place(here), "is given more than once");
                }
                collect_repeated(value, here, faults);
            }
        }
        Node::Null | Node::Boolean(_) | Node::Whole(_) | Node::Negative(_) | Node::Float(_) | Node::Text(_) => {}
    }
}
