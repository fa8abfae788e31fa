//! One log line when something goes away and one when it is back, however many requests run into it; and the metrics
//! that say so.

use common::limited;
use common::log_limit::LogLimit;
use common::metrics::{self as names, OUTAGE, OUTAGE_FAILURES};
use metrics::Gauge;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Whether something that is needed is away.
pub struct Outage {
    what: &'static str,
    /// Locked while it is set, so that what it says last is true.
    gauge: Mutex<Gauge>,
    away: AtomicBool,
    /// What alternates between working and failing fills no log.
    flips: LogLimit<2>,
}

impl Outage {
    /// `what` is there.
    pub fn new(what: &'static str) -> Self {
        names::show(OUTAGE_FAILURES, &[("what", what)]);
        let gauge = metrics::gauge!(OUTAGE, "what" => what);
        gauge.set(0.0);
        Self { what, gauge: Mutex::new(gauge), away: AtomicBool::new(false), flips: LogLimit::new() }
    }

    /// It failed. Only the first failure of a row is worth a warning.
    pub fn failed(&self, error: &impl fmt::Display) {
        metrics::counter!(OUTAGE_FAILURES, "what" => self.what).increment(1);
        if self.away.swap(true, Ordering::Relaxed) {
            tracing::debug!(what = self.what, %error, "dependency still unavailable");
        } else {
            self.show();
            limited!(self.flips[0], warn, what = self.what, %error, "dependency unavailable; requests are answered 503");
        }
    }

    fn show(&self) {
        let gauge = self.gauge.lock().unwrap_or_else(PoisonError::into_inner);
        gauge.set(f64::from(u8::from(self.away.load(Ordering::Relaxed))));
    }

    /// It worked.
    pub fn worked(&self) {
        // Reading first keeps the cache line shared: this is called for every use.
        if self.away.load(Ordering::Relaxed) && self.away.swap(false, Ordering::Relaxed) {
            self.show();
            limited!(self.flips[1], info, what = self.what, "dependency available again");
        }
    }
}

impl fmt::Debug for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outage").field("what", &self.what).field("away", &self.away).finish_non_exhaustive()
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
                outage.failed(&"no answer");
                outage.worked();
            }
        });
        let logged = lines.0.load(Ordering::Relaxed);
        assert!((2..=2 * (began.elapsed().as_secs() + 2)).contains(&logged), "{logged} lines");
    }
}
