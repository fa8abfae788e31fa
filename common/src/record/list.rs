//! Arrays with a limit.

use super::fault::{fault, other_kind};
use crate::event::Faults;
use deserr::{Deserr, IntoValue, MergeWithError, Sequence, Value, ValueKind, ValuePointerRef, take_cf_content};

/// An array of at most `MAX` items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtMost<const MAX: usize, T>(Vec<T>);

impl<const MAX: usize, T> AtMost<MAX, T> {
    /// Borrows the items, in their order.
    pub fn as_slice(&self) -> &[T] {
        &self.0
    }

    /// Without the guarantee of the bound.
    pub fn into_vec(self) -> Vec<T> {
        self.0
    }
}

/// Items beyond the limit are not parsed.
impl<const MAX: usize, T: Deserr<Faults>> Deserr<Faults> for AtMost<MAX, T> {
    fn deserialize_from_value<V: IntoValue>(value: Value<V>, at: ValuePointerRef<'_>) -> Result<Self, Faults> {
        let Value::Sequence(sequence) = value else {
            return Err(other_kind(value.kind(), ValueKind::Sequence, at));
        };
        let too_many = (sequence.len() > MAX).then(|| fault(at, format!("must have at most {MAX} items")));
        let mut faults = too_many.unwrap_or_default();
        let mut items = Vec::with_capacity(sequence.len().min(MAX));
        for (i, item) in sequence.into_iter().take(MAX).enumerate() {
            match T::deserialize_from_value(item.into_value(), at.push_index(i)) {
                Ok(item) => items.push(item),
                Err(found) => faults = take_cf_content(Faults::merge(Some(faults), found, at)),
            }
        }
        if faults.is_empty() { Ok(Self(items)) } else { Err(faults) }
    }
}
