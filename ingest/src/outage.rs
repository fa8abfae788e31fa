//! Tracks whether a dependency is available: one log line when it becomes unavailable and one when it is back, however many
//! requests fail meanwhile; and metrics.

use common::limited;
use common::log_limit::LogLimit;
use common::metrics::{self as names, OUTAGE, OUTAGE_FAILURES};
use metrics::Gauge;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Whether a dependency is unavailable.
pub(crate) struct Outage {
    what: &'static str,
    /// What happens while it is unavailable.
    effect: Effect,
    /// Locked while it is set, so that its last value is the current state.
    gauge: Mutex<Gauge>,
    is_down: AtomicBool,
    /// Limits the log lines of a dependency that alternates between working and failing.
    transitions: LogLimit<2>,
}

/// What happens while a dependency is unavailable.
#[derive(Clone, Copy, Debug)]
enum Effect {
    /// A background task repeats its work.
    TaskRetries,
    /// Requests that need it get a 503 response.
    RequestsFail,
}

impl Outage {
    /// A dependency of a background task, which retries. `what` is the metrics' label; the dependency counts as available.
    pub(crate) fn new(what: &'static str) -> Self {
        Self::with_effect(what, Effect::TaskRetries)
    }

    /// A dependency of requests, which get a 503 response without it.
    pub(crate) fn of_requests(what: &'static str) -> Self {
        Self::with_effect(what, Effect::RequestsFail)
    }

    fn with_effect(what: &'static str, effect: Effect) -> Self {
        names::register_counter(OUTAGE_FAILURES, &[("what", what)]);
        let gauge = metrics::gauge!(OUTAGE, "what" => what);
        gauge.set(0.0);
        let (gauge, is_down) = (Mutex::new(gauge), AtomicBool::new(false));
        Self { what, effect, gauge, is_down, transitions: LogLimit::new() }
    }

    /// Reports a failed use. Only the first failure in a row is logged as a warning.
    pub(crate) fn report_failure(&self, error: &impl fmt::Display) {
        metrics::counter!(OUTAGE_FAILURES, "what" => self.what).increment(1);
        if self.is_down.swap(true, Ordering::Relaxed) {
            tracing::debug!(what = self.what, %error, "Postgres is still unavailable");
        } else {
            self.show();
            let what = self.what;
            match self.effect {
                Effect::TaskRetries => {
                    limited!(self.transitions[0], warn, what, %error, "a background task cannot use Postgres; retrying");
                }
                Effect::RequestsFail => {
                    limited!(self.transitions[0], warn, what, %error, "Postgres is unavailable; responding 503 to requests that need it");
                }
            }
        }
    }

    fn show(&self) {
        let gauge = self.gauge.lock().unwrap_or_else(PoisonError::into_inner);
        gauge.set(f64::from(u8::from(self.is_down.load(Ordering::Relaxed))));
    }

    /// Reports a successful use.
    pub(crate) fn report_success(&self) {
        // Reading first keeps the cache line shared: this is called for every use.
        if self.is_down.load(Ordering::Relaxed) && self.is_down.swap(false, Ordering::Relaxed) {
            self.show();
            limited!(self.transitions[1], info, what = self.what, "Postgres is available again");
        }
    }
}

impl fmt::Debug for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outage")
            .field("what", &self.what)
            .field("is_down", &self.is_down)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::time::Instant;
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    /// Counts the lines that are logged by default.
    #[derive(Clone, Default)]
    struct Lines(Arc<AtomicU64>);

    impl Subscriber for Lines {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let is_logged = *event.metadata().level() <= Level::INFO;
            self.0.fetch_add(u64::from(is_logged), Ordering::Relaxed);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn a_dependency_that_alternates_is_logged_once_a_second() {
        let (lines, began, outage) = (Lines::default(), Instant::now(), Outage::new("test"));
        tracing::subscriber::with_default(lines.clone(), || {
            for _ in 0..500 {
                outage.report_failure(&"no response");
                outage.report_success();
            }
        });
        let logged = lines.0.load(Ordering::Relaxed);
        assert!((2..=2 * (began.elapsed().as_secs() + 2)).contains(&logged), "{logged} lines");
    }
}
