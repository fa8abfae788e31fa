//! The version of Connect, and those of records: `updatedAt`, which strictly grows, and the ETag that is made of it (D19).

use crate::clock::to_text;
use chrono::{DateTime, TimeDelta, Utc};

/// How Connect names itself in its own requests. Some servers' firewalls refuse requests without a name.
pub const USER_AGENT: &str = concat!("Connect/", env!("CARGO_PKG_VERSION"));

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
