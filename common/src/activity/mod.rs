//! What happened in each of the last minutes and hours, for the overview of the settings area: requests, events, delivery attempts,
//! what of them failed by its cause, and the lengths of queues.
//!
//! The programs note in memory what they do, after they have done it, and write the sums every few seconds with one statement
//! for all tenants. So nothing that is counted waits for its count, and a page reads at most 192 rows. The counts of the last
//! seconds before a program is killed are missing; nothing but charts and hints depends on them.

mod pending;
mod store;

use crate::broker::Queue;
use crate::db::{Client, Database, Sql};
use crate::log_limit::LogLimit;
use crate::metrics::QUEUE_LAG;
use crate::model::TenantId;
use crate::periodic::ticks;
use crate::{clock, limited};
use chrono::{DateTime, Utc};
use parking_lot::Mutex;
pub use pending::Cause;
pub(crate) use pending::QueueObservation;
use pending::{ActivityCounts, CauseCounts, PendingActivity};
use std::time::Duration;
use tokio::time::timeout;
use uuid::Uuid;

/// All statements, for the tests that prepare and explain them against the schema.
pub const STATEMENTS: &[Sql] = store::STATEMENTS;

/// How often notes are written.
const EVERY: Duration = Duration::from_secs(5);
/// Longest time for one write.
const WITHIN: Duration = Duration::from_secs(5);

/// One for the process, as the metrics are.
static PENDING: Mutex<PendingActivity> = Mutex::new(PendingActivity::new());

/// Limits the log lines about failed writes.
static FAILED: LogLimit<1> = LogLimit::new();

/// Counts requests of a tenant that were accepted and refused.
pub fn count_requests(tenant: TenantId, accepted: u64, refused: u64) {
    PENDING.lock().count(tenant, ActivityCounts { accepted, refused, ..ActivityCounts::default() });
}

/// Counts events of a tenant that were applied and failed.
pub fn count_events(tenant: TenantId, applied: u64, failed: u64) {
    PENDING.lock().count(tenant, ActivityCounts { applied, failed, ..ActivityCounts::default() });
}

/// Counts a delivery attempt of a tenant's subscription; `error` is the status or error of one that failed.
pub fn count_attempt(tenant: TenantId, subscription: Uuid, error: Option<String>) {
    let (delivered, undelivered) = (u64::from(error.is_none()), u64::from(error.is_some()));
    let counts = CauseCounts { failed: undelivered, succeeded: delivered, last_error: error };
    let mut pending = PENDING.lock();
    pending.count(tenant, ActivityCounts { delivered, undelivered, ..ActivityCounts::default() });
    pending.count_cause((tenant, Cause::Receiver(subscription)), counts, true);
}

/// Counts a failed event with `KEY, request ID`, or a response with a status from 500 on, of a tenant and of all tenants.
pub fn count_failure(tenant: TenantId, cause: Cause, sent_by: Option<String>) {
    let one = CauseCounts { failed: 1, succeeded: 0, last_error: sent_by };
    let mut pending = PENDING.lock();
    pending.count_cause((TenantId(Uuid::nil()), cause.clone()), one.clone(), true);
    pending.count_cause((tenant, cause), one, true);
}

/// Notes that a request of a queue that was published at this time has been handled, and records its lag.
pub fn note_handled(queue: Queue, published_at: DateTime<Utc>) {
    record_lag(queue, published_at);
    PENDING.lock().handled(queue, published_at);
}

/// Records the lag of a request that was published at this time. Those that are not handled in the order of their queue say
/// nothing about those that wait.
pub fn record_lag(queue: Queue, published_at: DateTime<Utc>) {
    let lag = (clock::database_now() - published_at).to_std().unwrap_or_default();
    metrics::histogram!(QUEUE_LAG, "queue" => queue.as_str()).record(lag);
}

/// Notes what the broker said of a queue.
pub(crate) fn note_queue(queue: Queue, observation: QueueObservation) {
    PENDING.lock().observe(queue, observation);
}

/// Writes what is noted every few seconds, until the program ends.
pub async fn write_regularly(database: Database) {
    let mut ticks = ticks(EVERY);
    loop {
        ticks.tick().await;
        write(&database).await;
    }
}

/// Writes what is noted. Counts whose write failed are kept and added to a later minute. After a timeout they are dropped, because they
/// may have been written.
pub async fn write(database: &Database) {
    let mut due = PENDING.lock().take_due();
    if due.is_empty() {
        return;
    }
    let failure = match timeout(WITHIN, database.client()).await {
        Ok(Ok(client)) => match timeout(WITHIN, store::write(&client, &mut due, clock::now())).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => {
                PENDING.lock().put_back(due);
                error.to_string()
            }
            Err(_) => {
                // Its next user would wait for the same statement.
                drop(Client::take(client));
                format!("no response within {} s", WITHIN.as_secs())
            }
        },
        Ok(Err(error)) => {
            PENDING.lock().put_back(due);
            error.to_string()
        }
        Err(_) => {
            PENDING.lock().put_back(due);
            format!("no connection within {} s", WITHIN.as_secs())
        }
    };
    limited!(FAILED[0], warn, error = failure, "writing the counts of the last seconds failed");
}
