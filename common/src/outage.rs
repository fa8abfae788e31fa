//! Whether an operation works: one log line when it begins to fail and one when it works again, however many uses fail meanwhile;
//! metrics; and the wait until it works again.

use crate::health;
use crate::limited;
use crate::log_limit::LogLimit;
use crate::metrics::{self as names, OUTAGE, OUTAGE_FAILURES};
use metrics::Gauge;
use parking_lot::Mutex;
use std::fmt::Display;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Whether an operation fails.
#[derive(Debug)]
pub struct Outage {
    /// The metrics' label.
    operation: &'static str,
    /// The log line: what fails, and what the program does until it works.
    line: &'static str,
    /// Locked while it is set, so that its last value is the current state.
    gauge: OnceLock<Mutex<Gauge>>,
    is_down: AtomicBool,
    /// Limits the log lines of an operation that alternates between working and failing.
    transitions: LogLimit<2>,
}

impl Outage {
    /// An operation that works. `operation` is the metrics' label, and `line` is logged when it begins to fail.
    pub const fn new(operation: &'static str, line: &'static str) -> Self {
        Self { operation, line, gauge: OnceLock::new(), is_down: AtomicBool::new(false), transitions: LogLimit::new() }
    }

    /// Exports its metrics from now on, also before the first failure.
    pub fn register(&self) {
        names::register_counter(OUTAGE_FAILURES, &[("operation", self.operation)]);
        self.show();
    }

    /// [`new`](Self::new), with its metrics registered.
    pub fn registered(operation: &'static str, line: &'static str) -> Self {
        let outage = Self::new(operation, line);
        outage.register();
        outage
    }

    /// Reports a failed use. Only the first failure in a row is logged as a warning.
    pub fn report_failure(&self, error: &impl Display) {
        let operation = self.operation;
        metrics::counter!(OUTAGE_FAILURES, "operation" => operation).increment(1);
        if self.is_down.swap(true, Ordering::Relaxed) {
            tracing::debug!(operation, %error, "{}", self.line);
        } else {
            self.show();
            limited!(self.transitions[0], warn, operation, %error, "{}", self.line);
        }
    }

    /// Reports a successful use.
    pub fn report_success(&self) {
        // Reading first keeps the cache line shared: this is called for every use.
        if self.is_down.load(Ordering::Relaxed) && self.is_down.swap(false, Ordering::Relaxed) {
            self.show();
            limited!(self.transitions[1], info, operation = self.operation, "an operation works again");
        }
    }

    /// Repeats `attempt`, with `wait` in between, while it fails with an error that `is_outage` says to wait for. `None` when the
    /// program shuts down in a wait; an attempt is never interrupted, because it may be committing.
    pub async fn wait_out<T, E: Display, R>(
        &self, wait: Duration, shutdown: &CancellationToken, is_outage: fn(&E) -> bool, mut attempt: impl FnMut() -> R,
    ) -> Option<Result<T, E>>
    where
        R: Future<Output = Result<T, E>>,
    {
        loop {
            health::beat();
            match attempt().await {
                Err(error) if is_outage(&error) => self.report_failure(&error),
                done => {
                    self.report_success();
                    return Some(done);
                }
            }
            shutdown.run_until_cancelled(sleep(wait)).await?;
        }
    }

    fn show(&self) {
        let gauge = || Mutex::new(metrics::gauge!(OUTAGE, "operation" => self.operation));
        let gauge = self.gauge.get_or_init(gauge).lock();
        gauge.set(f64::from(u8::from(self.is_down.load(Ordering::Relaxed))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::time::{Duration, Instant};

    #[test]
    fn an_operation_that_alternates_is_logged_once_a_second() {
        static LINES: AtomicU64 = AtomicU64::new(0);
        // A writer is asked for once a line.
        let writer = || {
            LINES.fetch_add(1, Ordering::Relaxed);
            std::io::sink()
        };
        let (began, outage) = (Instant::now(), Outage::new("test", "it fails; retrying"));
        let logs = tracing_subscriber::fmt().with_writer(writer).finish();
        tracing::subscriber::with_default(logs, || {
            for _ in 0..500 {
                outage.report_failure(&"no response");
                outage.report_success();
            }
        });
        let logged = LINES.load(Ordering::Relaxed);
        assert!((2..=2 * (began.elapsed().as_secs() + 2)).contains(&logged), "{logged} lines");
    }

    #[tokio::test]
    async fn an_outage_is_waited_out_until_shutdown_and_other_errors_are_returned() {
        static OUTAGE: Outage = Outage::new("test", "it fails; retrying");
        let (wait, shutdown) = (Duration::ZERO, CancellationToken::new());
        let (mut attempts, is_outage) = (0, |error: &&str| *error == "away");
        let attempt = || {
            attempts += 1;
            std::future::ready(if attempts < 3 { Err("away") } else { Err::<(), _>("wrong") })
        };
        assert_eq!(OUTAGE.wait_out(wait, &shutdown, is_outage, attempt).await, Some(Err("wrong")));
        assert_eq!(attempts, 3);
        shutdown.cancel();
        let (wait, attempt) = (Duration::from_secs(3600), || std::future::ready(Err::<(), _>("away")));
        assert_eq!(OUTAGE.wait_out(wait, &shutdown, is_outage, attempt).await, None);
    }
}
