//! Converts the deserializer's errors to [`Faults`]: collects all of them, with the API's places and texts.

use crate::event::Faults;
use deserr::{DeserializeError, ErrorKind, IntoValue, MergeWithError, ValueKind, ValuePointerRef};
use std::ops::ControlFlow;

/// Parsing ends after this many faults, so that a hostile body costs little.
pub(super) const FAULTS_MAX: usize = 1_000;
/// Longest field name in a place, in characters; longer ones are cut.
const NAME_SHOWN: usize = 80;

impl DeserializeError for Faults {
    fn error<V: IntoValue>(
        so_far: Option<Self>, error: ErrorKind<'_, V>, at: ValuePointerRef<'_>,
    ) -> ControlFlow<Self, Self> {
        let mut faults = so_far.unwrap_or_default();
        match error {
            ErrorKind::IncorrectValueKind { actual, accepted } => {
                faults.push(place(at), wrong_kind(actual.kind(), accepted));
            }
            ErrorKind::MissingField { field } => faults.push(place(at.push_key(field)), "is required"),
            ErrorKind::UnknownKey { key, .. } => faults.push(place(at.push_key(key)), "is not a known field"),
            ErrorKind::UnknownValue { accepted, .. } => faults.push(place(at), one_of(accepted)),
            ErrorKind::BadSequenceLen { expected, .. } => {
                faults.push(place(at), format!("must have {expected} items"));
            }
            ErrorKind::Unexpected { .. } => faults.push(place(at), "is not valid"),
        }
        bounded(faults)
    }
}

impl MergeWithError<Self> for Faults {
    fn merge(so_far: Option<Self>, found: Self, _: ValuePointerRef<'_>) -> ControlFlow<Self, Self> {
        let mut faults = so_far.unwrap_or_default();
        faults.0.extend(found.0);
        bounded(faults)
    }
}

fn bounded(faults: Faults) -> ControlFlow<Faults, Faults> {
    if faults.0.len() < FAULTS_MAX { ControlFlow::Continue(faults) } else { ControlFlow::Break(faults) }
}

/// The one fault of the value at a place.
pub(crate) fn fault(at: ValuePointerRef<'_>, what: impl Into<String>) -> Faults {
    Faults::one(place(at), what)
}

/// The fault of a value of another JSON type than `accepted`.
pub(crate) fn other_kind(actual: ValueKind, accepted: ValueKind, at: ValuePointerRef<'_>) -> Faults {
    fault(at, wrong_kind(actual, &[accepted]))
}

fn wrong_kind(actual: ValueKind, accepted: &[ValueKind]) -> &'static str {
    match (actual, accepted.first()) {
        (ValueKind::Null, _) => "must not be null",
        (_, Some(ValueKind::Boolean)) => "must be true or false",
        (_, Some(ValueKind::Integer | ValueKind::NegativeInteger | ValueKind::Float)) => "must be a number",
        (_, Some(ValueKind::String)) => "must be a string",
        (_, Some(ValueKind::Sequence)) => "must be an array",
        (_, Some(ValueKind::Map)) => "must be an object",
        (_, Some(ValueKind::Null) | None) => "is not valid",
    }
}

/// The fault text of a value that must be one of these.
pub(crate) fn one_of(accepted: &[&str]) -> String {
    format!("must be one of {}", accepted.join(", "))
}

/// A place as it is written in messages: `travelers[2].type`; empty for the body as a whole.
pub(super) fn place(at: ValuePointerRef<'_>) -> String {
    let mut text = String::new();
    write_place(at, &mut text);
    text
}

fn write_place(at: ValuePointerRef<'_>, text: &mut String) {
    match at {
        ValuePointerRef::Origin => {}
        ValuePointerRef::Key { key, prev } => {
            write_place(*prev, text);
            write_name(key, text);
        }
        ValuePointerRef::Index { index, prev } => {
            write_place(*prev, text);
            text.push_str(&format!("[{index}]"));
        }
    }
}

/// Writes a field name; names that are not plain words are quoted in brackets, and long ones are cut.
fn write_name(name: &str, text: &mut String) {
    let shown: String = name.chars().take(NAME_SHOWN).collect();
    let cut = if shown.len() < name.len() { "…" } else { "" };
    let is_word = !shown.is_empty() && shown.chars().all(|c| c.is_alphanumeric() || "_-$".contains(c));
    match (is_word, text.is_empty()) {
        (true, true) => text.push_str(&format!("{shown}{cut}")),
        (true, false) => text.push_str(&format!(".{shown}{cut}")),
        (false, _) => text.push_str(&format!("[{:?}]", format!("{shown}{cut}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut() {
        let long = "ä".repeat(NAME_SHOWN + 1);
        let expected = format!("{}…", "ä".repeat(NAME_SHOWN));
        assert_eq!(place(ValuePointerRef::Origin.push_key(&long)), expected);
    }
}
