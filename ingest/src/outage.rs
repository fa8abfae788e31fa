//! One log line when something goes away and one when it is back, however many requests run into it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether something that is needed is away.
#[derive(Debug)]
pub struct Outage {
    what: &'static str,
    away: AtomicBool,
}

impl Outage {
    /// `what` is there.
    pub const fn new(what: &'static str) -> Self {
        Self { what, away: AtomicBool::new(false) }
    }

    /// It failed. Only the first failure of a row is worth a warning.
    pub fn failed(&self, error: &impl fmt::Display) {
        if self.away.swap(true, Ordering::Relaxed) {
            tracing::debug!(what = self.what, %error, "still failing");
        } else {
            tracing::warn!(what = self.what, %error, "failing");
        }
    }

    /// It worked.
    pub fn worked(&self) {
        // Reading first keeps the cache line shared: this is called for every use.
        if self.away.load(Ordering::Relaxed) && self.away.swap(false, Ordering::Relaxed) {
            tracing::info!(what = self.what, "works again");
        }
    }
}
