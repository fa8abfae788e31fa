//! Limits repeated log lines to one a second for each reason, so that no caller can flood the log.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Limits the lines of one place in the code. Kept in a `static`; `REASONS` is the number of reasons that are limited
/// separately.
#[derive(Debug)]
pub struct LogLimit<const REASONS: usize>([Reason; REASONS]);

#[derive(Debug)]
struct Reason {
    /// The first second in which the next line may be logged; 0 before the first line.
    next: AtomicU64,
    suppressed: AtomicU64,
}

/// The permission to log a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPermit {
    /// Lines of its reason that were suppressed since the last one; `None` for none, so that the field is left out.
    pub suppressed: Option<u64>,
}

impl<const REASONS: usize> LogLimit<REASONS> {
    /// A limit that admits the next line of every reason.
    pub const fn new() -> Self {
        Self([const { Reason { next: AtomicU64::new(0), suppressed: AtomicU64::new(0) } }; REASONS])
    }

    /// Whether a line of this reason may be logged now. Reasons beyond `REASONS` share the limits of the others.
    pub fn admit(&self, reason: usize) -> Option<LogPermit> {
        static BEGUN: OnceLock<Instant> = OnceLock::new();
        self.admit_at(reason, BEGUN.get_or_init(Instant::now).elapsed().as_secs())
    }

    fn admit_at(&self, reason: usize, second: u64) -> Option<LogPermit> {
        let reason = self.0.get(reason % REASONS.max(1))?;
        let next = reason.next.load(Ordering::Relaxed);
        let is_due = second >= next
            && reason.next.compare_exchange(next, second + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if !is_due {
            reason.suppressed.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let suppressed = reason.suppressed.swap(0, Ordering::Relaxed);
        Some(LogPermit { suppressed: (suppressed > 0).then_some(suppressed) })
    }
}

impl<const REASONS: usize> Default for LogLimit<REASONS> {
    fn default() -> Self {
        Self::new()
    }
}

/// Logs a line of a reason at `info`, `warn` or `error` if the limit admits it, with the number of lines that were suppressed
/// before it, and at `debug` otherwise: `limited!(LIMIT[reason], warn, %error, "what happened")`.
#[macro_export]
macro_rules! limited {
    ($limit:ident $(. $field:ident)* [$reason:expr], $level:ident, $($line:tt)+) => {
        match $limit $(. $field)* .admit($reason) {
            Some(permit) => tracing::$level!(suppressed = permit.suppressed, $($line)+),
            None => tracing::debug!($($line)+),
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admits_one_line_a_second_and_reason_and_counts_the_others() {
        let limit = LogLimit::<2>::new();
        let none_suppressed = Some(LogPermit { suppressed: None });
        assert_eq!(limit.admit_at(0, 0), none_suppressed);
        assert_eq!(limit.admit_at(1, 0), none_suppressed);
        for _ in 0..3 {
            assert_eq!(limit.admit_at(0, 0), None);
        }
        assert_eq!(limit.admit_at(0, 1), Some(LogPermit { suppressed: Some(3) }));
        assert_eq!(limit.admit_at(0, 1), None);
        assert_eq!(limit.admit_at(1, 9), none_suppressed);
        assert_eq!(limit.admit_at(0, 9), Some(LogPermit { suppressed: Some(1) }));
    }

    #[test]
    fn loses_no_line_when_threads_log_at_once() {
        let limit = LogLimit::<1>::new();
        let counts = || {
            let admitted = (0..1_000).filter_map(|_| limit.admit_at(0, 5));
            admitted.map(|line| 1 + line.suppressed.unwrap_or_default()).sum::<u64>()
        };
        let logged = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(counts));
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
        });
        let rest = limit.admit_at(0, 6).unwrap().suppressed.unwrap_or_default();
        assert_eq!(logged + rest, 4_000);
    }
}
