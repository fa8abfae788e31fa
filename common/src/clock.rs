//! The only place that reads the wall clock.
//!
//! Machines whose programs work together may show different times. What one of them writes for another to compare, and what is
//! signed, is therefore the time of the database, which all of them ask.

use crate::metrics::CLOCK_DIFFERENCE;
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use parking_lot::Mutex;
use std::time::Instant;
use uuid::{ContextV7, Timestamp, Uuid};

/// A program whose clock differs from the database's by this much or more is not ready: receivers refuse signatures that are five
/// minutes old, and ingest would refuse good ones.
const MOST_DIFFERENCE: TimeDelta = TimeDelta::seconds(120);

/// What the clock of the database has shown, and when it was read here.
static DATABASE_TIME: Mutex<Option<(DateTime<Utc>, Instant)>> = Mutex::new(None);

/// What keeps the ids of [`database_id`] in order.
static IDS: std::sync::Mutex<ContextV7> = std::sync::Mutex::new(ContextV7::new());

/// The current time in whole milliseconds, because a stored time must be read back unchanged (D19).
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn now() -> DateTime<Utc> {
    Utc::now().trunc_subsecs(3)
}

/// The current time in whole milliseconds by the database's clock, or slightly earlier. A jump of this machine's clock does not
/// change it. Before the database was asked it is [`now`].
pub fn database_now() -> DateTime<Utc> {
    let asked = *DATABASE_TIME.lock();
    asked.map_or_else(now, |(at, read)| {
        let since = TimeDelta::from_std(read.elapsed()).unwrap_or_default();
        (at + since).trunc_subsecs(3)
    })
}

/// A UUIDv7 of [`database_now`], greater than all that this process has made before.
pub fn database_id() -> Uuid {
    let now = database_now();
    let seconds = u64::try_from(now.timestamp()).unwrap_or_default();
    Uuid::new_v7(Timestamp::from_unix(&IDS, seconds, now.timestamp_subsec_nanos()))
}

/// Notes what the database's clock has just shown.
pub(crate) fn note_database_time(at: DateTime<Utc>) {
    *DATABASE_TIME.lock() = Some((at, Instant::now()));
    metrics::gauge!(CLOCK_DIFFERENCE).set((now() - at).as_seconds_f64());
}

/// Whether this machine's clock is near enough to the database's.
pub(crate) fn is_near_database() -> bool {
    (now() - database_now()).abs() < MOST_DIFFERENCE
}

/// The format of times in responses: RFC 3339, UTC, milliseconds (`2026-01-01T00:00:00.000Z`).
pub fn to_text(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

/// [`to_text`] for `#[serde(serialize_with)]`.
pub fn serialize<S: serde::Serializer>(at: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&to_text(*at))
}
