//! One log line when something goes away and one when it is back, however many requests run into it; and the metrics
//! that say so.

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
}

impl Outage {
    /// `what` is there.
    pub fn new(what: &'static str) -> Self {
        names::show(OUTAGE_FAILURES, &[("what", what)]);
        let gauge = metrics::gauge!(OUTAGE, "what" => what);
        gauge.set(0.0);
        Self { what, gauge: Mutex::new(gauge), away: AtomicBool::new(false) }
    }

    /// It failed. Only the first failure of a row is worth a warning.
    pub fn failed(&self, error: &impl fmt::Display) {
        metrics::counter!(OUTAGE_FAILURES, "what" => self.what).increment(1);
        if self.away.swap(true, Ordering::Relaxed) {
            tracing::debug!(what = self.what, %error, "still failing");
        } else {
            self.show();
            tracing::warn!(what = self.what, %error, "failing");
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
            tracing::info!(what = self.what, "works again");
        }
    }
}

impl fmt::Debug for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outage").field("what", &self.what).field("away", &self.away).finish_non_exhaustive()
    }
}
