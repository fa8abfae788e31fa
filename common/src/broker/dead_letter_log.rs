//! Log lines about dead-lettered messages. Anyone who may publish to a queue can cause them, so they are limited to one a
//! second for each queue and reason; `connect_dead_lettered_total` counts all of them.

use super::mac::{FORGED, MacError};
use super::topology::Queue;
use crate::limited;
use crate::log_limit::LogLimit;

/// The reasons, see [`MessageOutcome::DeadLetter`](super::MessageOutcome::DeadLetter).
const REASONS: [&str; 6] = ["metadata", "body", "internal", "attempts", "backlog", "record"];

static DEAD_LETTER_LINES: LogLimit<{ Queue::ALL.len() * (REASONS.len() + 1) }> = LogLimit::new();
static FORGED_LINES: LogLimit<{ Queue::ALL.len() }> = LogLimit::new();

/// Logs that a message of `queue` is dead-lettered, in the current span.
pub fn log_dead_letter(queue: Queue, reason: &'static str) {
    let place = REASONS.iter().position(|known| *known == reason).unwrap_or(REASONS.len());
    let line = queue as usize * (REASONS.len() + 1) + place;
    limited!(DEAD_LETTER_LINES[line], error, queue = queue.as_str(), reason, "message dead-lettered");
}

/// Logs that a message of `queue` whose MAC does not verify is dead-lettered, in the current span.
pub(super) fn log_forged(queue: Queue, why: MacError) {
    let line = queue as usize;
    limited!(FORGED_LINES[line], error, queue = queue.as_str(), reason = FORGED, %why, "message dead-lettered");
}
