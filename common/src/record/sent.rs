//! Optional fields.

use super::fault::fault;
use crate::event::Faults;
use deserr::{Deserr, IntoValue, Value, ValuePointerRef};

/// A field that was sent or omitted. Unlike an `Option`, it does not accept null for an omitted field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent<T>(Option<T>);

impl<T> Sent<T> {
    pub(crate) const ABSENT: Self = Self(None);

    /// Whether it was sent.
    pub const fn is_sent(&self) -> bool {
        self.0.is_some()
    }

    /// The value, if it was sent.
    pub const fn get(&self) -> Option<&T> {
        self.0.as_ref()
    }

    /// The value to change, if it was sent.
    pub(super) const fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_mut()
    }

    /// The value itself, if it was sent.
    pub fn into_option(self) -> Option<T> {
        self.0
    }
}

impl<T: Into<String>> Sent<T> {
    /// The text itself, if it was sent.
    pub fn into_string(self) -> Option<String> {
        self.0.map(Into::into)
    }
}

impl<T> Default for Sent<T> {
    fn default() -> Self {
        Self::ABSENT
    }
}

impl<T> From<T> for Sent<T> {
    fn from(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T: Deserr<Faults>> Deserr<Faults> for Sent<T> {
    fn deserialize_from_value<V: IntoValue>(value: Value<V>, at: ValuePointerRef<'_>) -> Result<Self, Faults> {
        if matches!(value, Value::Null) {
            return Err(fault(at, "must not be null"));
        }
        T::deserialize_from_value(value, at).map(Self::from)
    }
}
