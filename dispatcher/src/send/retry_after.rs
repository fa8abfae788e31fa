//! `Retry-After`, in seconds or as a date (D26).

use chrono::{DateTime, Utc};
use hyper::header::RETRY_AFTER;
use hyper::{HeaderMap, StatusCode};
use std::time::{Duration, SystemTime};

/// The longest wait that is returned; the schedule limits it further.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// The wait that a 429 or 503 asks for at `now`; `None` if the header is absent or malformed.
pub(super) fn requested(status: StatusCode, headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let is_supported = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    let text = headers.get(RETRY_AFTER).filter(|_| is_supported)?.to_str().ok()?.trim();
    let wait = if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        // A number that is too large to parse exceeds the limit as well.
        text.parse().map_or(LONGEST, Duration::from_secs)
    } else {
        let until = httpdate::parse_http_date(text).ok()?;
        until.duration_since(SystemTime::from(now)).unwrap_or_default()
    };
    Some(wait.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(status: u16, value: &str) -> Option<u64> {
        let now = DateTime::parse_from_rfc3339("2026-01-01T00:00:00Z").unwrap().to_utc();
        let headers = HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())]);
        requested(StatusCode::from_u16(status).unwrap(), &headers, now).map(|wait| wait.as_secs())
    }

    #[test]
    fn seconds_and_dates_are_understood_and_bounded() {
        assert_eq!(wait(503, "120"), Some(120));
        assert_eq!(wait(429, " 0 "), Some(0));
        assert_eq!(wait(503, "99999999999999999999999"), Some(LONGEST.as_secs()));
        assert_eq!(wait(503, "Thu, 01 Jan 2026 00:05:00 GMT"), Some(300));
        assert_eq!(wait(503, "Thursday, 01-Jan-26 00:00:30 GMT"), Some(30));
        assert_eq!(wait(503, "Wed, 31 Dec 2025 00:05:00 GMT"), Some(0));
        assert_eq!(wait(503, "Fri, 01 Jan 2100 00:00:00 GMT"), Some(LONGEST.as_secs()));
    }

    #[test]
    fn malformed_values_and_other_statuses_are_ignored() {
        for unreadable in ["", "soon", "-1", "1.5", "+3", "2026-01-01T00:05:00Z"] {
            assert_eq!(wait(503, unreadable), None, "{unreadable}");
        }
        for status in [200, 301, 404, 500, 502] {
            assert_eq!(wait(status, "120"), None, "{status}");
        }
    }
}
