//! The names of all metrics (docs/operators.md). No label contains a tenant's, key's or person's data.

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::sync::OnceLock;

/// Requests by route, method and status.
pub const HTTP_REQUESTS: &str = "connect_http_requests_total";
/// Seconds from a request's head to its response, by route.
pub const HTTP_DURATION: &str = "connect_http_request_duration_seconds";
/// Requests to the settings area by route, method and status.
pub const CONSOLE_REQUESTS: &str = "connect_console_requests_total";
/// Seconds in which the settings area handled a request, by route.
pub const CONSOLE_DURATION: &str = "connect_console_request_duration_seconds";
/// Open connections to the API, by state: `idle` without a request under way, or `active`.
pub const HTTP_CONNECTIONS: &str = "connect_http_connections";
/// Maximum number of connections to the API at once.
pub const HTTP_CONNECTIONS_MAX: &str = "connect_http_connections_max";
/// Connections that were closed instead of served, by reason: `all`, `peer` or `network`, whose limit was reached.
pub const HTTP_CONNECTIONS_REFUSED: &str = "connect_http_connections_refused_total";
/// Connections that were closed for others: idle ones, and ones with a slow request body or an unread response.
pub const HTTP_CONNECTIONS_CLOSED: &str = "connect_http_connections_closed_total";
/// Refused authentications by reason.
pub const AUTH_FAILURES: &str = "connect_auth_failures_total";
/// Refused requests that name a key, by outcome: `recorded`, `sampled` (beyond the number of a minute), or `lost` (too many at
/// once, or the database did not respond).
pub const REFUSED_REQUESTS: &str = "connect_refused_requests_total";
/// Requests refused with 503 `overloaded`, by reason.
pub const OVERLOADED: &str = "connect_overloaded_total";
/// Units published and not applied yet, by queue: an event or a records write, or 4 KiB of body where that is more.
pub const BACKLOG: &str = "connect_backlog_units";
/// Units that may wait at once, by queue; follows the rate at which the worker applies.
pub const BACKLOG_LIMIT: &str = "connect_backlog_limit_units";
/// 1 while an operation on Postgres fails, from the first failure to the next success; by operation.
pub const OUTAGE: &str = "connect_outage";
/// Failures of such operations.
pub const OUTAGE_FAILURES: &str = "connect_outage_failures_total";
/// Look-ups of records by the server that they were sent to: `primary` or `replica`.
pub const RECORD_READS: &str = "connect_record_reads_total";
/// Age in seconds of the data on the replica of `DATABASE_READ_URL`; grows while the replica does not respond.
pub const READ_REPLICA_LAG: &str = "connect_read_replica_lag_seconds";
/// The age in seconds beyond which the replica is not read.
pub const READ_REPLICA_LAG_LIMIT: &str = "connect_read_replica_lag_limit_seconds";
/// Failed decryptions of secrets with this `CONNECT_MASTER_KEY`: of a `key`, or of a `subscription`.
pub const SECRET_DECRYPTION_FAILURES: &str = "connect_secret_decryption_failures_total";
/// Values that are sealed under a master key, by the key's id, and by which `key` that is: `current`, `previous` or `other`.
pub const SEALED_VALUES: &str = "connect_sealed_values";
/// Publishes by queue and outcome.
pub(crate) const PUBLISHES: &str = "connect_publish_total";
/// Seconds from publish to reply, by queue.
pub(crate) const REPLY_WAIT: &str = "connect_reply_wait_seconds";
/// Messages waiting, by queue.
pub(crate) const QUEUE_READY: &str = "connect_queue_messages_ready";
/// Gauge of the consumers that the broker knows, by `queue`.
pub(crate) const QUEUE_CONSUMERS: &str = "connect_queue_consumers";
/// Length at which a queue refuses messages, by this program's settings; by queue.
pub(crate) const QUEUE_MAX_LENGTH: &str = "connect_queue_max_length";
/// Seconds for which the oldest message has been unacknowledged, by queue; 0 without one.
pub(crate) const OLDEST_UNACKNOWLEDGED: &str = "connect_oldest_unacknowledged_seconds";
/// Seconds from publish to apply, by queue.
pub const QUEUE_LAG: &str = "connect_queue_lag_seconds";
/// Events that the worker has decided about, by type and status; again when their message is redelivered.
pub const EVENTS: &str = "connect_events_total";
/// Events of messages that the broker has confirmed in time.
pub const EVENTS_ACCEPTED: &str = "connect_events_accepted_total";
/// Advisor actions by name and status: `done`, `repeated`, `refused`, `malformed`, `failed`.
pub const ACTIONS: &str = "connect_actions_total";
/// Duration of a unit of work in seconds, by queue.
pub const APPLY_DURATION: &str = "connect_apply_duration_seconds";
/// Events in a request's batch.
pub const BATCH_EVENTS: &str = "connect_batch_events";
/// Number of requests in a published bundle.
pub const BUNDLE_REQUESTS: &str = "connect_bundle_requests";
/// Redelivered messages, by queue.
pub(crate) const REDELIVERED: &str = "connect_redelivered_total";
/// Messages that the programs dead-lettered, by queue and reason.
pub(crate) const DEAD_LETTERED: &str = "connect_dead_lettered_total";
/// Outbound events that are not fanned out, counted up to 100,000.
pub const OUTBOX_PENDING: &str = "connect_outbox_pending";
/// Age in seconds of the oldest event that is not fanned out.
pub const OUTBOX_OLDEST: &str = "connect_outbox_oldest_seconds";
/// Attempts at webhooks, by outcome.
pub const WEBHOOK_ATTEMPTS: &str = "connect_webhook_attempts_total";
/// Seconds from the start of an attempt, name resolution included, to its status.
pub const WEBHOOK_ATTEMPT_DURATION: &str = "connect_webhook_attempt_duration_seconds";
/// Scheduled retries, by the number of the next attempt.
pub const WEBHOOK_RETRIES: &str = "connect_webhook_retries_total";
/// Deliveries whose attempts were used up.
pub const WEBHOOK_DEAD: &str = "connect_webhook_dead_total";
/// Gauge of the deliveries in the database, by `state`: `pending` or `dead`, counted up to 100,000.
pub const WEBHOOK_DELIVERIES: &str = "connect_webhook_deliveries";
/// Deliveries that are due and not recorded as sent, of subscriptions that are not paused, counted up to 100,000.
pub const WEBHOOK_DUE: &str = "connect_webhook_due";
/// For how many seconds the oldest of them has been due; 0 without one.
pub const WEBHOOK_OLDEST_DUE: &str = "connect_webhook_oldest_due_seconds";
/// Slots of this dispatcher by `state`: `held`, and `excess` for those that it gives up to others.
pub const DISPATCHER_SLOTS: &str = "connect_dispatcher_slots";
/// Expired rows that were removed, by table.
pub const RETENTION_REMOVED: &str = "connect_retention_removed_total";
/// Seconds for which the oldest expired row has been due, by table; 0 without one.
pub const RETENTION_BEHIND: &str = "connect_retention_behind_seconds";
/// Maximum number of connections of a database pool.
pub(crate) const POOL_MAX: &str = "connect_db_pool_max";
/// Connections of a database pool.
pub(crate) const POOL_SIZE: &str = "connect_db_pool_size";
/// Idle connections of a database pool.
pub(crate) const POOL_AVAILABLE: &str = "connect_db_pool_available";
/// Tasks that wait for a connection of a database pool.
pub(crate) const POOL_WAITING: &str = "connect_db_pool_waiting";
/// Transactions by name and outcome: `committed`, `refused` (a function of the schema refused what the caller asked for: the
/// quota is used up, or the deadline has passed), `conflict` (it is retried, five runs at most), `locked` (another
/// transaction holds a lock; what it was for is put off), `unavailable`, `failed`.
pub(crate) const TRANSACTIONS: &str = "connect_db_transactions_total";
/// Spans by export outcome: `exported`, `failed` (the collector did not accept them), `dropped` (the queue was full).
pub(crate) const TRACE_SPANS: &str = "connect_trace_spans_total";
/// Log lines that were dropped because standard error is not read fast enough.
pub(crate) const LOG_LINES_DROPPED: &str = "connect_log_lines_dropped_total";
/// 1 while the broker is connected, by all the connections that the program needs.
pub(crate) const BROKER_CONNECTED: &str = "connect_broker_connected";
/// 1 while a readiness check is fulfilled, by check, as `/readyz` reports.
pub(crate) const READY: &str = "connect_ready";
/// How many seconds this machine's clock is ahead of the database's.
pub(crate) const CLOCK_DIFFERENCE: &str = "connect_clock_difference_seconds";
/// Always 1; the version is a label.
pub(crate) const BUILD_INFO: &str = "connect_build_info";

/// Seconds; from half a millisecond to the reply deadline.
const DURATIONS: &[f64] =
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// Seconds; from a few milliseconds, over the reply deadline, to an outage of an hour.
const LAGS: &[f64] =
    &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0];
/// Events in a batch, requests in a bundle.
const BATCHES: &[f64] = &[1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0];

/// Handles of metrics that differ in the values of their labels, by a number below `N`. Each is looked up once: a look-up
/// hashes the name and all labels, which a request should not pay for. Kept in a `static`.
#[derive(Debug)]
pub struct Handles<T, const N: usize>([OnceLock<T>; N]);

impl<T, const N: usize> Handles<T, N> {
    /// Handles of which none has been looked up yet.
    pub const fn new() -> Self {
        Self([const { OnceLock::new() }; N])
    }

    /// The handle of that number, which must be below `N`. `look_up` finds it the first time.
    pub fn get(&self, number: usize, look_up: impl FnOnce() -> T) -> &T {
        self.0[number].get_or_init(look_up)
    }
}

impl<T, const N: usize> Default for Handles<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

/// Installs the recorder. Call once, at start.
pub fn install() -> PrometheusHandle {
    let builder = PrometheusBuilder::new()
        .set_buckets(DURATIONS)
        .and_then(|builder| builder.set_buckets_for_metric(Matcher::Full(BATCH_EVENTS.to_owned()), BATCHES))
        .and_then(|builder| {
            builder.set_buckets_for_metric(Matcher::Full(BUNDLE_REQUESTS.to_owned()), BATCHES)
        })
        .and_then(|builder| builder.set_buckets_for_metric(Matcher::Full(QUEUE_LAG.to_owned()), LAGS))
        .expect("the lists of buckets are not empty");
    let handle = builder.install_recorder().expect("the recorder is installed once");
    metrics::gauge!(BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    register_counter(LOG_LINES_DROPPED, &[]);
    handle
}

/// Exports a counter at 0, so that queries see its first increase.
pub fn register_counter(counter: &'static str, labels: &[(&'static str, &'static str)]) {
    metrics::counter!(counter, labels).absolute(0);
}

/// Exports histograms of a queue before their first value.
pub(crate) fn register_histograms_by_queue(histograms: &[&'static str], queue: &'static str) {
    for histogram in histograms {
        drop(metrics::histogram!(*histogram, "queue" => queue));
    }
}
