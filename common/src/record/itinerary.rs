//! The itinerary of a body (D21b). Unknown fields and nulls outside of its items are faults of the body, as
//! everywhere else; all other errors come from `check_itinerary`, which events use as well.

use super::BodyError;
use super::fault::fault;
use super::sent::Sent;
use crate::event::Faults;
use crate::model::check_itinerary;
use deserr::{Deserr, IntoValue, Value, ValueKind, ValuePointerRef};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::marker::PhantomData;

/// How many errors of an itinerary are listed; the others are counted.
pub(super) const ERRORS_SHOWN: usize = 100;

/// A valid itinerary snapshot: its JSON text as sent, so that the order of fields and the digits of numbers survive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Itinerary(String);

impl Itinerary {
    /// The JSON text, byte for byte as sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Extracts and checks the itinerary of a body that is otherwise valid and has one.
    pub(super) fn as_sent(body: &[u8]) -> Result<Self, BodyError> {
        let unreadable = |_| Faults::one("itinerary", "is not valid");
        let Holder { itinerary } = serde_json::from_slice(body).map_err(unreadable)?;
        let snapshot = serde_json::from_str(itinerary.get()).map_err(unreadable)?;
        let errors = check_itinerary(&snapshot, itinerary.get().len());
        if errors.is_empty() {
            Ok(Self(itinerary.get().to_owned()))
        } else {
            Err(BodyError::InvalidItinerary(shown(errors)))
        }
    }
}

impl From<Itinerary> for String {
    fn from(itinerary: Itinerary) -> Self {
        itinerary.0
    }
}

#[derive(Deserialize)]
struct Holder<'a> {
    #[serde(borrow)]
    itinerary: &'a RawValue,
}

fn shown(mut errors: Vec<String>) -> Vec<String> {
    let more = errors.len().saturating_sub(ERRORS_SHOWN);
    if more > 0 {
        errors.truncate(ERRORS_SHOWN);
        errors.push(format!("and {more} more"));
    }
    errors
}

/// Finds the faults only. `as_sent` adds the text, because a parsed value does not retain it.
impl Deserr<Faults> for Itinerary {
    fn deserialize_from_value<V: IntoValue>(value: Value<V>, at: ValuePointerRef<'_>) -> Result<Self, Faults> {
        If::<Snapshot>::deserialize_from_value(value, at).map(|_| Self(String::new()))
    }
}

crate::record::optional_fields! {
    #[expect(dead_code, reason = "only the faults of reading it matter")]
    struct Snapshot {
        title: Sent<Anything>,
        days: Sent<If<Vec<If<Day>>>>,
    }
}

crate::record::optional_fields! {
    #[expect(dead_code, reason = "only the faults of reading it matter")]
    struct Day {
        title: Sent<Anything>,
        items: Sent<If<Vec<Anything>>>,
    }
}

/// Anything but null.
struct Anything;

impl Deserr<Faults> for Anything {
    fn deserialize_from_value<V: IntoValue>(value: Value<V>, at: ValuePointerRef<'_>) -> Result<Self, Faults> {
        if matches!(value, Value::Null) { Err(fault(at, "must not be null")) } else { Ok(Self) }
    }
}

/// Parses a value of the JSON type of `T` as one; of other values, only null is a fault here.
struct If<T>(PhantomData<T>);

trait Kind {
    const KIND: ValueKind;
}

impl Kind for Snapshot {
    const KIND: ValueKind = ValueKind::Map;
}

impl Kind for Day {
    const KIND: ValueKind = ValueKind::Map;
}

impl<T> Kind for Vec<T> {
    const KIND: ValueKind = ValueKind::Sequence;
}

impl<T: Deserr<Faults> + Kind> Deserr<Faults> for If<T> {
    fn deserialize_from_value<V: IntoValue>(value: Value<V>, at: ValuePointerRef<'_>) -> Result<Self, Faults> {
        if value.kind() == T::KIND {
            T::deserialize_from_value(value, at)?;
        } else {
            Anything::deserialize_from_value(value, at)?;
        }
        Ok(Self(PhantomData))
    }
}
