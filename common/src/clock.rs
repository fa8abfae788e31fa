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
