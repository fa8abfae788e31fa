//! Writes the notes and counts of requests by key, and with them the activity of ingest.

use super::notes::{KeyCounts, NamedKey, Noted, RefusedNote, RefusedNotes};
use crate::outage::Outage;
use crate::store;
use crate::store::api_key_requests::{self, KeyRequests};
use crate::store::refused_requests::{self, RefusedRow};
use chrono::{DateTime, DurationRound, TimeDelta, Utc};
use common::activity;
use common::clock;
use common::db::{Client, Database};
use common::metrics::{REFUSED_REQUESTS, register_counter};
use common::model::KeyPrefix;
use metrics::Counter;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often notes are written.
const EVERY: Duration = Duration::from_secs(1);
/// After how many writes of notes the counts are written.
const COUNTS_EVERY: u32 = 5;
/// How long one statement may take.
const WITHIN: Duration = Duration::from_secs(5);
/// Maximum number of counts written by one statement.
const WRITTEN_MAX: usize = 1_000;

/// The notes of refused requests, and the counts of all. Cheap to clone.
#[derive(Clone)]
pub(crate) struct KeyRequestRecorder(Arc<Shared>);

struct Shared {
    db: Database,
    outage: Outage,
    of_existing_keys: Mutex<RefusedNotes>,
    of_malformed_headers: Mutex<RefusedNotes>,
    of_unknown_keys: Mutex<RefusedNotes>,
    outcomes: Outcomes,
}

/// The metric, by outcome.
struct Outcomes {
    recorded: Counter,
    sampled: Counter,
    lost: Counter,
}

impl Outcomes {
    fn new() -> Self {
        let counter = |outcome: &'static str| {
            register_counter(REFUSED_REQUESTS, &[("outcome", outcome)]);
            metrics::counter!(REFUSED_REQUESTS, "outcome" => outcome)
        };
        Self { recorded: counter("recorded"), sampled: counter("sampled"), lost: counter("lost") }
    }
}

impl fmt::Debug for KeyRequestRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRequestRecorder").finish_non_exhaustive()
    }
}

fn lock(notes: &Mutex<RefusedNotes>) -> MutexGuard<'_, RefusedNotes> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KeyRequestRecorder {
    /// Notes that [`write`](Self::write) writes to `db`.
    pub(crate) fn new(db: Database) -> Self {
        Self(Arc::new(Shared {
            db,
            outage: Outage::new("refused requests"),
            of_existing_keys: Mutex::default(),
            of_malformed_headers: Mutex::default(),
            of_unknown_keys: Mutex::default(),
            outcomes: Outcomes::new(),
        }))
    }

    pub(super) fn add(&self, named: NamedKey, key: &KeyPrefix, note: RefusedNote) {
        let notes = match named {
            NamedKey::Exists => &self.0.of_existing_keys,
            NamedKey::NotLookedUp => &self.0.of_malformed_headers,
            NamedKey::DoesNotExist => &self.0.of_unknown_keys,
        };
        match lock(notes).add(key, note) {
            Noted::Kept => {}
            Noted::Sampled => self.0.outcomes.sampled.increment(1),
            Noted::Lost => self.0.outcomes.lost.increment(1),
        }
    }

    pub(super) fn count_accepted(&self, key: &KeyPrefix) {
        lock(&self.0.of_existing_keys).count(key, KeyCounts { accepted: 1, refused: 0 });
    }

    /// Writes regularly, until the program ends.
    pub(crate) async fn write_regularly(self) {
        let mut next = interval(EVERY);
        next.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for tick in 0_u32.. {
            next.tick().await;
            self.write_notes().await;
            if tick % COUNTS_EVERY == 0 {
                self.write_counts().await;
                // Ingest has no other task that writes its activity: only `write_counts` learns the tenants of the requests.
                activity::write(&self.0.db).await;
            }
        }
    }

    /// Writes everything that is noted.
    pub(crate) async fn write(&self) {
        self.write_notes().await;
        self.write_counts().await;
        activity::write(&self.0.db).await;
    }

    /// Writes the notes, and drops those of keys that do not exist (D35). Notes that cannot be written are lost: by the time the
    /// database is back there are newer ones.
    async fn write_notes(&self) {
        drop(lock(&self.0.of_unknown_keys).take());
        let (keys, of_malformed_headers) =
            (lock(&self.0.of_existing_keys).take(), lock(&self.0.of_malformed_headers).take());
        let rows: Vec<RefusedRow> = keys.into_rows().chain(of_malformed_headers.into_rows()).collect();
        if rows.is_empty() {
            return;
        }
        let add = async |client: &Client| refused_requests::add(client, &rows).await;
        match store::run_until(&self.0.db, Instant::now() + WITHIN, add).await {
            Ok(added) => {
                self.0.outage.report_success();
                self.0.outcomes.recorded.increment(added);
            }
            Err(error) => {
                self.0.outage.report_failure(&error);
                self.0.outcomes.lost.increment(rows.len() as u64);
            }
        }
    }

    /// Adds the counts to those of the current hour. Those that cannot be written are kept for the next time.
    async fn write_counts(&self) {
        drop(lock(&self.0.of_unknown_keys).take_counts());
        // Both locks are held until the end of this statement. Nothing else takes two of them, so there is no deadlock.
        let taken =
            [lock(&self.0.of_existing_keys).take_counts(), lock(&self.0.of_malformed_headers).take_counts()];
        let mut merged: BTreeMap<KeyPrefix, KeyCounts> = BTreeMap::new();
        for (key, counts) in taken.into_iter().flatten() {
            let sum = merged.entry(key).or_default();
            sum.accepted += counts.accepted;
            sum.refused += counts.refused;
        }
        let counts: Vec<KeyRequests> = merged
            .into_iter()
            .map(|(key, KeyCounts { accepted, refused })| KeyRequests { key, accepted, refused })
            .collect();
        let hour = first_of_hour(clock::now());
        for chunk in counts.chunks(WRITTEN_MAX) {
            let add = async |client: &Client| api_key_requests::add(client, hour, chunk).await;
            match store::run_until(&self.0.db, Instant::now() + WITHIN, add).await {
                Ok(added) => {
                    self.0.outage.report_success();
                    for (tenant, accepted, refused) in added {
                        activity::count_requests(tenant, accepted, refused);
                    }
                }
                Err(error) => {
                    self.0.outage.report_failure(&error);
                    // Either list will do, because both are merged here. This is the one that valid requests do not lock.
                    let mut notes = lock(&self.0.of_malformed_headers);
                    for KeyRequests { key, accepted, refused } in chunk {
                        notes.count(key, KeyCounts { accepted: *accepted, refused: *refused });
                    }
                }
            }
        }
    }
}

fn first_of_hour(at: DateTime<Utc>) -> DateTime<Utc> {
    at.duration_trunc(TimeDelta::hours(1)).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::unused_database;
    use bytes::Bytes;
    use hyper::Method;
    use uuid::Uuid;

    fn note() -> RefusedNote {
        RefusedNote {
            request_id: Uuid::nil(),
            at: clock::now(),
            method: Method::GET,
            route: "/",
            status: 401,
            reason: "stale".to_owned(),
            detail: None,
            signed_at: None,
            body: Bytes::new(),
        }
    }

    #[tokio::test]
    async fn refusals_of_keys_that_do_not_exist_displace_no_others() {
        let refused = KeyRequestRecorder::new(unused_database(1));
        for number in 0..2_000 {
            let other = KeyPrefix::parse(&format!("ck_{number}")).unwrap();
            refused.add(NamedKey::DoesNotExist, &other, note());
            refused.add(NamedKey::NotLookedUp, &other, note());
        }
        let key = KeyPrefix::parse("ck_existing").unwrap();
        refused.add(NamedKey::Exists, &key, note());
        assert_eq!(lock(&refused.0.of_existing_keys).take().into_rows().count(), 1);
    }

    #[test]
    fn counts_belong_to_the_hour_in_which_they_are_written() {
        let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
        assert_eq!(first_of_hour(at("2026-05-01T10:59:59.999Z")), at("2026-05-01T10:00:00Z"));
        assert_eq!(first_of_hour(at("2026-05-01T11:00:00Z")), at("2026-05-01T11:00:00Z"));
    }
}
