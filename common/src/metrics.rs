//! Every metric's name, in one place (the operator's contract). No label holds an agency's, key's or person's data.

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::sync::OnceLock;

/// Requests by route, method and status.
pub const HTTP_REQUESTS: &str = "connect_http_requests_total";
/// Seconds from a request's head to its answer, by route.
pub const HTTP_DURATION: &str = "connect_http_request_duration_seconds";
/// Open connections to the API, by state: `idle` without a request under way, or `active`.
pub const HTTP_CONNECTIONS: &str = "connect_http_connections";
/// Most connections to the API at once.
pub const HTTP_CONNECTIONS_MAX: &str = "connect_http_connections_max";
/// Connections that were closed instead of served, by reason: `all`, `peer` or `network`, whose share was used up.
pub const HTTP_CONNECTIONS_REFUSED: &str = "connect_http_connections_refused_total";
/// Connections that were closed to make room for others, idle or with a slow request body, or whose response nobody read.
pub const HTTP_CONNECTIONS_CLOSED: &str = "connect_http_connections_closed_total";
/// Refused authentications by reason.
pub const AUTH_FAILURES: &str = "connect_auth_failures_total";
/// Requests refused with 503 `overloaded`, by reason.
pub const REFUSED: &str = "connect_refused_total";
/// Units published and not applied yet, by queue: an event or a records write, or 4 KiB of body where that is more.
pub const BACKLOG: &str = "connect_backlog_units";
/// Units that may wait at once, by queue; follows the rate at which the worker applies.
pub const BACKLOG_LIMIT: &str = "connect_backlog_limit_units";
/// 1 while something that requests need of Postgres fails, from the first failure to the next success; by what it is.
pub const OUTAGE: &str = "connect_outage";
/// Its failures.
pub const OUTAGE_FAILURES: &str = "connect_outage_failures_total";
/// Secrets that couldn't be opened with this `CONNECT_MASTER_KEY`: of a `key`, or of a `subscription`.
pub const SEALED_UNOPENED: &str = "connect_sealed_unopened_total";
/// Publishes by queue and outcome.
pub const PUBLISHES: &str = "connect_publish_total";
/// Seconds from publish to reply, by queue.
pub const REPLY_WAIT: &str = "connect_reply_wait_seconds";
/// Messages waiting, by queue.
pub const QUEUE_READY: &str = "connect_queue_messages_ready";
/// Messages that wait for their time, by queue: the waits between attempts at webhooks.
pub const QUEUE_DELAYED: &str = "connect_queue_messages_delayed";
/// Consumers, by queue.
pub const QUEUE_CONSUMERS: &str = "connect_queue_consumers";
/// Messages after which a queue refuses, as this program is set; by queue.
pub const QUEUE_MAX_LENGTH: &str = "connect_queue_max_length";
/// Seconds since the oldest unit, or webhook, in hand was begun, by queue; 0 when none is in hand. Webhooks that did not
/// come through the queue count as well.
pub const OLDEST_IN_HAND: &str = "connect_oldest_in_hand_seconds";
/// Seconds from publish to apply, by queue; for a webhook that isn't published, from reading it to its first attempt.
pub const QUEUE_LAG: &str = "connect_queue_lag_seconds";
/// Events by type and status.
pub const EVENTS: &str = "connect_events_total";
/// Advisor actions by name and status: `done`, `repeated`, `refused`, `malformed`, `failed`.
pub const ACTIONS: &str = "connect_actions_total";
/// Seconds a unit of work took, by queue.
pub const APPLY_DURATION: &str = "connect_apply_duration_seconds";
/// Events in a request's batch.
pub const BATCH_EVENTS: &str = "connect_batch_events";
/// Requests whose events were published in one message.
pub const BUNDLE_REQUESTS: &str = "connect_bundle_requests";
/// Messages that came again, by queue.
pub const REDELIVERED: &str = "connect_redelivered_total";
/// Messages sent to a dead-letter queue by the worker, by queue and reason.
pub const DEAD_LETTERED: &str = "connect_dead_lettered_total";
/// Outbound events not yet relayed, those whose first attempts are under way included.
pub const OUTBOX_PENDING: &str = "connect_outbox_pending";
/// Age of the oldest of them.
pub const OUTBOX_OLDEST: &str = "connect_outbox_oldest_seconds";
/// Attempts at webhooks, by outcome.
pub const WEBHOOK_ATTEMPTS: &str = "connect_webhook_attempts_total";
/// How long an attempt took, name look-up to status.
pub const WEBHOOK_ATTEMPT_DURATION: &str = "connect_webhook_attempt_duration_seconds";
/// Attempts scheduled after a failed one, by the number of the attempt to come.
pub const WEBHOOK_RETRIES: &str = "connect_webhook_retries_total";
/// Deliveries whose attempts were used up.
pub const WEBHOOK_DEAD: &str = "connect_webhook_dead_total";
/// Deliveries by state.
pub const WEBHOOK_DELIVERIES: &str = "connect_webhook_deliveries";
/// Most connections of a database pool.
pub const POOL_MAX: &str = "connect_db_pool_max";
/// Connections of a database pool.
pub const POOL_SIZE: &str = "connect_db_pool_size";
/// Those not in use.
pub const POOL_AVAILABLE: &str = "connect_db_pool_available";
/// Tasks waiting for one.
pub const POOL_WAITING: &str = "connect_db_pool_waiting";
/// Transactions by name and outcome: `committed`, `refused` (a function of the schema refused what the caller asked for: the
/// quota is used up, or the deadline has passed), `conflict` (it runs again, five times at most), `unavailable`, `failed`.
pub const TRANSACTIONS: &str = "connect_db_transactions_total";
/// Spans handed over for export, by outcome: `exported`, `failed` (the collector didn't take them), `dropped` (too many).
pub const TRACE_SPANS: &str = "connect_trace_spans_total";
/// Lines of the log that were dropped because standard error is not read fast enough.
pub const LOG_LINES_DROPPED: &str = "connect_log_lines_dropped_total";
/// 1 while the broker is connected, by all the connections that the program needs.
pub const BROKER_CONNECTED: &str = "connect_broker_connected";
/// 1 while something that the program needs is there, by check, as `/readyz` says.
pub const READY: &str = "connect_ready";
/// Always 1; the version is a label.
pub const BUILD_INFO: &str = "connect_build_info";

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
    /// None has been looked up yet.
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
        .expect("the lists of buckets aren't empty");
    let handle = builder.install_recorder().expect("the recorder is installed once");
    metrics::gauge!(BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    show(LOG_LINES_DROPPED, &[]);
    handle
}

/// Shows a counter from the start, at 0: the first rise of one that appears with it is seen by no query.
pub fn show(counter: &'static str, labels: &[(&'static str, &'static str)]) {
    metrics::counter!(counter, labels).absolute(0);
}

/// The same for histograms by queue.
pub fn show_by_queue(histograms: &[&'static str], queue: &'static str) {
    for histogram in histograms {
        drop(metrics::histogram!(*histogram, "queue" => queue));
    }
}
