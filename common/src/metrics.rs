//! All metrics, with their help (docs/metrics.md). No label contains a tenant's, key's or person's data.

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::sync::OnceLock;

/// A metric as its HELP and docs/metrics.md describe it.
struct Description {
    name: &'static str,
    #[cfg(test)]
    kind: &'static str,
    help: &'static str,
    describe: fn(&'static str, &'static str),
}

/// Names of metrics as constants, and [`DESCRIPTIONS`] with the help of each.
macro_rules! described {
    ($($constant:ident: $kind:ident $name:literal $help:literal,)+) => {
        $(#[doc = $help] pub const $constant: &str = $name;)+

        /// All metrics.
        const DESCRIPTIONS: &[Description] = &[$(Description {
            name: $name,
            #[cfg(test)]
            kind: stringify!($kind),
            help: $help,
            describe: describe::$kind,
        }),+];
    };
}

/// How the recorder learns the help of each kind of metric.
mod describe {
    pub(super) fn counter(name: &'static str, help: &'static str) {
        metrics::describe_counter!(name, help);
    }

    pub(super) fn gauge(name: &'static str, help: &'static str) {
        metrics::describe_gauge!(name, help);
    }

    pub(super) fn histogram(name: &'static str, help: &'static str) {
        metrics::describe_histogram!(name, help);
    }
}

described! {
    HTTP_REQUESTS: counter "connect_http_requests_total" "Requests by route, method and status",
    HTTP_DURATION: histogram "connect_http_request_duration_seconds"
        "Seconds from a request's head to its response, by route",
    CONSOLE_REQUESTS: counter "connect_console_requests_total"
        "Requests to the settings area by route, method and status",
    HTTP_CONNECTIONS: gauge "connect_http_connections"
        "Open connections to the API, by state: idle without a request under way, or active",
    HTTP_CONNECTIONS_MAX: gauge "connect_http_connections_max" "Maximum number of connections to the API at once",
    HTTP_CONNECTIONS_REFUSED: counter "connect_http_connections_refused_total"
        "Connections that were closed instead of served, by reason: all, peer or network, whose limit was reached",
    AUTH_FAILURES: counter "connect_auth_failures_total" "Refused authentications by reason",
    REFUSED_REQUESTS: counter "connect_refused_requests_total"
        "Refused requests that name a key, by outcome: recorded, sampled (beyond the number of a minute), or lost \
         (too many at once, or the database did not respond)",
    OVERLOADED: counter "connect_overloaded_total"
        "Requests refused with 503 overloaded, by the gate that was closed: connections, body, tenant or queue",
    BACKLOG: gauge "connect_backlog_units"
        "Backlog units published and not applied yet, by queue: 3 for an event that creates or advances something, \
         1 for another one or a write, or one for each 4 KiB of body where that is more; 8 at least for a dry run",
    BACKLOG_LIMIT: gauge "connect_backlog_limit_units"
        "Units that may wait at once, by queue; follows the rate at which the worker applies",
    OUTAGE: gauge "connect_outage"
        "1 while an operation on Postgres fails, from the first failure to the next success; by operation",
    OUTAGE_FAILURES: counter "connect_outage_failures_total" "Failures of such operations",
    RECORD_READS: counter "connect_record_reads_total"
        "Look-ups of records by the server that they were sent to: primary or replica",
    READ_REPLICA_LAG: gauge "connect_read_replica_lag_seconds"
        "Age in seconds of the data on the replica of DATABASE_READ_URL; grows while the replica does not respond",
    READ_REPLICA_LAG_LIMIT: gauge "connect_read_replica_lag_limit_seconds"
        "The age in seconds beyond which the replica is not read",
    SECRET_DECRYPTION_FAILURES: counter "connect_secret_decryption_failures_total"
        "Failed decryptions of secrets with this CONNECT_MASTER_KEY: of a key, or of a subscription",
    SEALED_VALUES: gauge "connect_sealed_values"
        "Values that are sealed under a master key, by the key's id, and by which key that is: current, previous \
         or other",
    PUBLISHES: counter "connect_publish_total" "Publishes by queue and outcome",
    REPLY_WAIT: histogram "connect_reply_wait_seconds" "Seconds from publish to reply, by queue",
    QUEUE_READY: gauge "connect_queue_messages_ready" "Messages waiting, by queue",
    QUEUE_CONSUMERS: gauge "connect_queue_consumers" "Consumers that the broker knows, by queue",
    QUEUE_MAX_LENGTH: gauge "connect_queue_max_length"
        "Length at which a queue refuses messages, by this program's settings; by queue",
    OLDEST_UNACKNOWLEDGED: gauge "connect_oldest_unacknowledged_seconds"
        "Seconds for which the oldest message has been unacknowledged, by queue; 0 without one",
    QUEUE_LAG: histogram "connect_queue_lag_seconds" "Seconds from publish to apply, by queue",
    EVENTS: counter "connect_events_total"
        "Events that the worker has decided about, by type and status; again when their message is redelivered; \
         without dry runs",
    EVENTS_ACCEPTED: counter "connect_events_accepted_total"
        "Events of messages that the broker has confirmed in time, without dry runs",
    ACTIONS: counter "connect_actions_total"
        "Advisor actions by name and status: done, repeated, refused, malformed, failed",
    APPLY_DURATION: histogram "connect_apply_duration_seconds" "Duration of a unit of work in seconds, by queue",
    BATCH_EVENTS: histogram "connect_batch_events" "Events in a request's batch",
    BUNDLE_REQUESTS: histogram "connect_bundle_requests" "Number of requests in a published bundle",
    REDELIVERED: counter "connect_redelivered_total" "Redelivered messages, by queue",
    DEAD_LETTERED: counter "connect_dead_lettered_total"
        "Messages that the programs dead-lettered, by queue and reason",
    OUTBOX_PENDING: gauge "connect_outbox_pending" "Outbound events that are not fanned out, counted up to 100,000",
    OUTBOX_OLDEST: gauge "connect_outbox_oldest_seconds" "Age in seconds of the oldest event that is not fanned out",
    WEBHOOK_ATTEMPTS: counter "connect_webhook_attempts_total" "Attempts at webhooks, by outcome",
    WEBHOOK_ATTEMPT_DURATION: histogram "connect_webhook_attempt_duration_seconds"
        "Seconds from the start of an attempt, name resolution included, to its status",
    WEBHOOK_RETRIES: counter "connect_webhook_retries_total" "Scheduled retries, by the number of the next attempt",
    WEBHOOK_DEAD: counter "connect_webhook_dead_total" "Deliveries whose attempts were used up",
    WEBHOOK_DELIVERIES: gauge "connect_webhook_deliveries"
        "Deliveries in the database, by state: pending or dead, counted up to 100,000",
    WEBHOOK_DUE: gauge "connect_webhook_due"
        "Deliveries that are due and not recorded as sent, of subscriptions that are not paused, counted up to \
         100,000",
    WEBHOOK_OLDEST_DUE: gauge "connect_webhook_oldest_due_seconds"
        "For how many seconds the oldest of them has been due; 0 without one",
    DISPATCHER_SLOTS: gauge "connect_dispatcher_slots"
        "Slots of this dispatcher by state: held, and excess for those that it gives up to others",
    RETENTION_REMOVED: counter "connect_retention_removed_total" "Expired rows that were removed, by table",
    RETENTION_BEHIND: gauge "connect_retention_behind_seconds"
        "Seconds for which the oldest expired row has been due, by table; 0 without one",
    POOL_MAX: gauge "connect_db_pool_max" "Maximum number of connections of a database pool",
    POOL_SIZE: gauge "connect_db_pool_size" "Connections of a database pool",
    POOL_AVAILABLE: gauge "connect_db_pool_available" "Idle connections of a database pool",
    POOL_WAITING: gauge "connect_db_pool_waiting" "Tasks that wait for a connection of a database pool",
    TRANSACTIONS: counter "connect_db_transactions_total"
        "Transactions by name and outcome: committed, refused (a function of the schema refused what the caller \
         asked for: the quota is used up, or the deadline has passed), conflict (it is retried, five runs at \
         most), locked (another transaction holds a lock; what it was for is put off), unavailable, failed",
    TRACE_SPANS: counter "connect_trace_spans_total"
        "Spans by export outcome: exported, failed (the collector did not accept them), dropped (the queue was \
         full)",
    LOG_LINES_DROPPED: counter "connect_log_lines_dropped_total"
        "Log lines that were dropped because standard error is not read fast enough",
    BROKER_CONNECTED: gauge "connect_broker_connected"
        "1 while the broker is connected, by all the connections that the program needs",
    READY: gauge "connect_ready" "1 while a readiness check is fulfilled, by check, as /readyz reports",
    CLOCK_DIFFERENCE: gauge "connect_clock_difference_seconds"
        "How many seconds this machine's clock is ahead of the database's",
    BUILD_INFO: gauge "connect_build_info" "Always 1; the version is a label",
}

/// Seconds; from half a millisecond to the reply deadline.
const DURATIONS: &[f64] = &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
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
        .and_then(|builder| builder.set_buckets_for_metric(Matcher::Full(BUNDLE_REQUESTS.to_owned()), BATCHES))
        .and_then(|builder| builder.set_buckets_for_metric(Matcher::Full(QUEUE_LAG.to_owned()), LAGS))
        .expect("the lists of buckets are not empty");
    let handle = builder.install_recorder().expect("the recorder is installed once");
    for Description { name, help, describe, .. } in DESCRIPTIONS {
        describe(name, help);
    }
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

#[cfg(test)]
mod tests {
    use super::DESCRIPTIONS;

    #[test]
    fn the_documented_table_has_every_metric() {
        let page = include_str!("../../docs/metrics.md");
        let row = |metric: &super::Description| format!("| `{}` | {} | {} |\n", metric.name, metric.kind, metric.help);
        let table: String = DESCRIPTIONS.iter().map(row).collect();
        assert!(page.ends_with(&table), "the table must be:\n{table}");
    }
}
