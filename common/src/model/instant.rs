//! Instants, with one reader for envelopes, payloads and command lines (D39).

use chrono::{DateTime, Datelike, Utc};

/// Parses an RFC 3339 date-time with an offset, in ASCII. In UTC it must lie in the years 1 to 9999, because others cannot be
/// formatted as RFC 3339.
pub fn parse_instant(text: &str) -> Option<DateTime<Utc>> {
    // The library also reads a blank between date and time, and U+2212 as a minus.
    let is_rfc_3339 = text.is_ascii() && matches!(text.as_bytes().get(10), Some(b'T' | b't'));
    let at = is_rfc_3339.then(|| DateTime::parse_from_rfc3339(text).ok()).flatten()?.to_utc();
    (1..=9999).contains(&at.year()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_have_an_offset_and_a_year_from_1_to_9999() {
        let noon = parse_instant("2026-05-01T12:00:00Z");
        assert!(noon.is_some());
        for same in ["2026-05-01t12:00:00z", "2026-05-01T07:00:00-05:00", "2026-05-01T12:00:00.000+00:00"] {
            assert_eq!(parse_instant(same), noon, "{same}");
        }
        for wrong in [
            "",
            "2026-05-01",
            "2026-05-01T12:00:00",
            "2026-05-01 12:00:00Z",
            "2026-01-01T10:00:00\u{2212}05:00",
            "9999-12-31T23:59:59-01:00",
            "0000-01-01T00:00:00Z",
            "0001-01-01T00:00:00+01:00",
            "+10000-01-01T00:00:00Z",
        ] {
            assert_eq!(parse_instant(wrong), None, "{wrong}");
        }
    }
}
