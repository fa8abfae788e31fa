//! Versions of records: `updatedAt`, which strictly grows, and the ETag that is made of it (D19).

use crate::clock::to_text;
use chrono::{DateTime, TimeDelta, Utc};

/// The version after `previous`: the current time, but at least a millisecond later.
pub fn next_version(previous: DateTime<Utc>, now: DateTime<Utc>) -> DateTime<Utc> {
    now.max(previous + TimeDelta::milliseconds(1))
}

/// The ETag of a version: `updatedAt` in double quotes.
pub fn etag(updated_at: DateTime<Utc>) -> String {
    format!("\"{}\"", to_text(updated_at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    #[test]
    fn a_version_grows_even_when_the_clock_stands_still_or_goes_back() {
        let first = now();
        let second = next_version(first, first);
        let third = next_version(second, first - TimeDelta::seconds(5));
        assert!(first < second && second < third);
    }
}
