//! The log lines of messages that are dead-lettered. Whoever may publish to a queue causes them, so they are limited to one
//! a second for each queue and reason; `connect_dead_lettered_total` counts all, and the dead-letter queue has each.

use super::mac::{FORGED, Forged};
use super::topology::Queue;
use crate::limited;
use crate::log_limit::LogLimit;

/// The reasons, see [`Verdict::Dead`](super::Verdict::Dead).
const REASONS: [&str; 5] = ["metadata", "body", "internal", "attempts", "record"];

static DEAD: LogLimit<{ Queue::ALL.len() * (REASONS.len() + 1) }> = LogLimit::new();
static FORGERIES: LogLimit<{ Queue::ALL.len() }> = LogLimit::new();

/// Logs that a message of `queue` is dead-lettered, in the current span.
pub fn log_dead_letter(queue: Queue, reason: &'static str) {
    let place = REASONS.iter().position(|known| *known == reason).unwrap_or(REASONS.len());
    let line = queue as usize * (REASONS.len() + 1) + place;
    limited!(DEAD[line], error, queue = queue.as_str(), reason, "message dead-lettered");
}

/// The same for one that does not verify.
pub(super) fn log_forged(queue: Queue, why: Forged) {
    let line = queue as usize;
    limited!(FORGERIES[line], error, queue = queue.as_str(), reason = FORGED, %why, "message dead-lettered");
}
