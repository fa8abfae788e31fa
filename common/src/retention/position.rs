//! The position of a retention rule in its table.

use chrono::{DateTime, Utc};
use uuid::Uuid;

/// Where the next step of a rule begins: after `id` in tables that are read in the order of ids, at `at` in the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub(super) id: Uuid,
    pub(super) at: DateTime<Utc>,
}

impl Position {
    /// Before the oldest row.
    pub const START: Self = Self { id: Uuid::nil(), at: DateTime::UNIX_EPOCH };

    pub(super) const fn after_id(id: Uuid) -> Self {
        Self { id, ..Self::START }
    }

    pub(super) const fn from_time(at: DateTime<Utc>) -> Self {
        Self { at, ..Self::START }
    }
}

/// The smallest id that a UUIDv7 of this millisecond, or of a later one, can have.
pub(super) fn first_id(at: DateTime<Utc>) -> Uuid {
    let millis = u128::try_from(at.timestamp_millis()).unwrap_or_default();
    Uuid::from_u128(millis << 80)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;
    use uuid::Timestamp;

    #[test]
    fn ids_before_a_time_are_smaller_and_the_others_are_not() {
        let at = DateTime::UNIX_EPOCH + TimeDelta::milliseconds(1_777_629_600_123);
        let id = |millis: i64| {
            let at = at + TimeDelta::milliseconds(millis);
            let seconds = at.timestamp().unsigned_abs();
            Uuid::new_v7(Timestamp::from_unix_time(seconds, at.timestamp_subsec_nanos(), 0, 0))
        };
        assert!(id(-1) < first_id(at) && first_id(at) < id(0) && first_id(at) < id(1));
        assert_eq!(first_id(DateTime::UNIX_EPOCH), Uuid::nil());
    }
}
