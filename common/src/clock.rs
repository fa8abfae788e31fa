//! The only place that reads the wall clock.

use chrono::{DateTime, SubsecRound, Utc};

/// The current time in whole milliseconds, because a stored time must be read back unchanged (D19).
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn now() -> DateTime<Utc> {
    Utc::now().trunc_subsecs(3)
}

/// The format of times in responses: RFC 3339, UTC, milliseconds (`2026-01-01T00:00:00.000Z`).
pub fn to_text(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

/// [`to_text`] for `#[serde(serialize_with)]`.
pub fn serialize<S: serde::Serializer>(at: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&to_text(*at))
}

/// The version after `previous`: the current time, but at least a millisecond later (D19).
pub fn next_version(previous: DateTime<Utc>, now: DateTime<Utc>) -> DateTime<Utc> {
    now.max(previous + chrono::TimeDelta::milliseconds(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_grows_even_when_the_clock_stands_still_or_goes_back() {
        let first = now();
        let second = next_version(first, first);
        let third = next_version(second, first - chrono::TimeDelta::seconds(5));
        assert!(first < second && second < third);
    }
}
