//! Why requests that named a key were refused, for the owner of the key (D35), and how many requests each key makes.
//!
//! A request only notes its refusal in memory; one task writes the notes together. What cannot be noted or written is
//! counted and lost: a refusal waits for nothing and takes as long as if nothing were recorded.
//!
//! There are two lists with the same bounds: of existing keys, and of prefixes that name no key or were not looked up.
//! So whether a key exists makes no difference to a request, and nobody can displace the notes of existing keys by
//! naming others. The statements that write skip prefixes without a key.

mod detail;
mod list;

use crate::auth::{AuthFailure, FailedCheck, Verified};
use crate::http::RequestHead;
use crate::http::route::Route;
use crate::refusal::Refusal;
use crate::store::refused_requests::{self, RefusedRow};
use crate::store::{self, api_key_requests};
use bytes::Bytes;
use chrono::{DateTime, DurationRound, TimeDelta, Utc};
use common::activity::{self, Cause};
use common::clock;
use common::db::{Client, Database};
use common::metrics::{REFUSED_REQUESTS, register_counter};
use common::model::{KeyPrefix, Scope};
use common::outage::Outage;
use common::periodic::ticks;
use common::signature::Signature;
use list::{Noted, RefusedList, hashed};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often the lists are written.
const EVERY: Duration = Duration::from_secs(2);
/// How long one statement may take.
const WITHIN: Duration = Duration::from_secs(5);

const RECORDED: &str = "recorded";
const SAMPLED: &str = "sampled";
const LOST: &str = "lost";

/// The refused requests, and the counts of all. Cheap to clone.
#[derive(Clone)]
pub(crate) struct KeyRequestRecorder(Arc<Shared>);

struct Shared {
    db: Database,
    outage: Outage,
    of_existing_keys: Mutex<RefusedList>,
    of_other_prefixes: Mutex<RefusedList>,
}

impl KeyRequestRecorder {
    /// A recorder that writes to `db`.
    pub(crate) fn new(db: Database) -> Self {
        for outcome in [RECORDED, SAMPLED, LOST] {
            register_counter(REFUSED_REQUESTS, &[("outcome", outcome)]);
        }
        Self(Arc::new(Shared {
            db,
            outage: store::outage_of_background("refused requests"),
            of_existing_keys: Mutex::default(),
            of_other_prefixes: Mutex::default(),
        }))
    }

    /// Notes a request that failed a check of D1 on a route that needs `scope`, if it names a key at all.
    pub(crate) fn note_failed(&self, head: &RequestHead, body: &Bytes, failed: &FailedCheck, scope: Scope) {
        let Some(key) = &failed.key else { return };
        let status = if failed.failure.is_forbidden() { 403 } else { 401 };
        let detail = detail::of_failed(&head.headers, failed, scope, clock::now().timestamp());
        let refused = row(head, body, key, (status, failed.failure.as_str()), detail);
        let signed_at = failed.signature.as_ref().map(Signature::timestamp);
        self.add(failed.owner.is_some(), RefusedRow { signed_at, ..refused }, body);
    }

    /// Counts a request with valid credentials, and notes it if it was refused. Not every status of 400 or above is a
    /// refusal in this sense: those that describe the state of a record (404, 409 and 412) are regular results, and
    /// those from 500 on are no fault of the caller. The latter are noted all the same, so that the request is found by
    /// its id, but not counted; nor is a dry run, which says nothing about the traffic of the key.
    pub(crate) fn note_result<T>(
        &self, head: &RequestHead, body: &Bytes, verified: &Verified, result: &Result<T, Refusal>,
    ) {
        let key = &verified.caller().key;
        let is_counted = !head.is_dry_write();
        let count_accepted = || {
            if is_counted {
                self.0.of_existing_keys.lock().count_accepted(key);
            }
        };
        let Err(refusal) = result else { return count_accepted() };
        let row = refusal.row();
        let status = row.status.as_u16();
        if matches!(status, 404 | 409 | 412) {
            return count_accepted();
        }
        // The only failure of authentication that is left once a request is verified.
        let is_replayed = matches!(refusal, Refusal::Unauthorized);
        let (reason, detail) =
            if is_replayed { (AuthFailure::Replayed.as_str().to_owned(), None) } else { detail::of_refusal(&row) };
        let refused = self::row(head, body, key, (status, &reason), detail);
        let signed_at = Some(verified.signature().timestamp());
        self.add(true, RefusedRow { signed_at, ..refused }, body);
        if status >= 500 && is_counted {
            activity::count_failure(verified.caller().tenant_id, Cause::Response(reason), None);
        }
    }

    fn add(&self, exists: bool, row: RefusedRow, body: &Bytes) {
        let list = if exists { &self.0.of_existing_keys } else { &self.0.of_other_prefixes };
        match list.lock().add(row, body.clone()) {
            Noted::Kept => {}
            Noted::Sampled => count(SAMPLED, 1),
            Noted::Lost => count(LOST, 1),
        }
    }

    /// Writes regularly, until the program ends.
    pub(crate) async fn write_regularly(self) {
        let mut ticks = ticks(EVERY);
        loop {
            ticks.tick().await;
            self.write().await;
        }
    }

    /// Writes everything that is noted, and the activity of ingest: only the counts of keys tell the tenants of the
    /// requests. What cannot be written is lost: by the time the database is back there are newer ones.
    pub(crate) async fn write(&self) {
        for list in [&self.0.of_existing_keys, &self.0.of_other_prefixes] {
            let (rows, counts) = list.lock().take(clock::now().timestamp().div_euclid(60));
            let rows: Vec<RefusedRow> = rows.into_iter().map(hashed).collect();
            if !rows.is_empty() {
                let add = async |client: &Client| refused_requests::add(client, &rows).await;
                match self.run(add).await {
                    Some(recorded) => count(RECORDED, recorded),
                    None => count(LOST, rows.len() as u64),
                }
            }
            if !counts.is_empty() {
                let hour = first_of_hour(clock::now());
                let add = async |client: &Client| api_key_requests::add(client, hour, &counts).await;
                for (tenant, accepted, refused) in self.run(add).await.unwrap_or_default() {
                    activity::count_requests(tenant, accepted, refused);
                }
            }
        }
        activity::write(&self.0.db).await;
    }

    async fn run<T>(&self, write: impl AsyncFnMut(&Client) -> Result<T, tokio_postgres::Error>) -> Option<T> {
        match store::run_until(&self.0.db, Instant::now() + WITHIN, write).await {
            Ok(written) => {
                self.0.outage.report_success();
                Some(written)
            }
            Err(error) => {
                self.0.outage.report_failure(&error);
                None
            }
        }
    }
}

fn count(outcome: &'static str, number: u64) {
    metrics::counter!(REFUSED_REQUESTS, "outcome" => outcome).increment(number);
}

fn first_of_hour(at: DateTime<Utc>) -> DateTime<Utc> {
    at.duration_trunc(TimeDelta::hours(1)).unwrap_or(at)
}

fn row(
    head: &RequestHead, body: &Bytes, key: &KeyPrefix, (status, reason): (u16, &str), detail: Option<String>,
) -> RefusedRow {
    RefusedRow {
        request_id: head.request_context.request_id,
        key: key.clone(),
        at: clock::now(),
        method: head.method.clone(),
        route: Route::at(head.uri.path()).map_or("", |(route, _)| route.pattern()),
        status,
        reason: reason.to_owned(),
        detail,
        signed_at: None,
        body_sha256: None,
        body_bytes: body.len(),
        dry_run: head.is_dry_write(),
    }
}
