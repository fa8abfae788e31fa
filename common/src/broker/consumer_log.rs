//! Log lines about consumers that ended or could not start. Each consumer retries several times a second for as long as the
//! broker refuses, so at most one line a second is logged for each queue.

use super::topology::Queue;
use crate::limited;
use crate::log_limit::LogLimit;

static LOST: LogLimit<{ Queue::ALL.len() }> = LogLimit::new();
static REFUSED: LogLimit<{ Queue::ALL.len() }> = LogLimit::new();

/// Logs that a consumer of `queue` has ended.
pub(super) fn log_consumer_lost(queue: Queue, error: &lapin::Error) {
    let queue_name = queue.as_str();
    limited!(LOST[queue as usize], warn, queue = queue_name, %error, "consumer lost; retrying in 250 ms");
}

/// Logs that the broker has refused to let a consumer of `queue` begin.
pub(super) fn log_cannot_consume(queue: Queue, error: &lapin::Error) {
    let queue_name = queue.as_str();
    limited!(REFUSED[queue as usize], warn, queue = queue_name, %error, "starting a consumer failed; retrying in 250 ms");
}
