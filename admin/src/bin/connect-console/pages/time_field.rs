//! Times as people and browsers type them.

use chrono::{DateTime, NaiveDateTime, Utc};
use common::model::parse_instant;

/// A time as browsers send it (`2026-05-01T10:00`, taken as UTC), or RFC 3339.
pub(super) fn time(text: &str) -> Option<DateTime<Utc>> {
    if let Some(exact) = parse_instant(text) {
        return Some(exact);
    }
    let formats = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"];
    formats
        .iter()
        .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())
        .map(|naive| naive.and_utc())
}
