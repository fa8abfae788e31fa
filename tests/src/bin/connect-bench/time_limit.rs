//! Time limits: a step that exceeds its limit ends the benchmark with a line that names it.

use std::time::Duration;
use tokio::time::timeout;

/// Longest wait for a single step such as a request, a statement or a message.
pub(crate) const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// Awaits `work` for at most [`STEP_TIMEOUT`]; panics with `what` when it takes longer.
pub(crate) async fn with_step_timeout<T>(what: &str, work: impl Future<Output = T>) -> T {
    with_timeout(STEP_TIMEOUT, what, work).await
}

/// Awaits `work` for at most `limit`; panics with `what` when it takes longer.
pub(crate) async fn with_timeout<T>(limit: Duration, what: &str, work: impl Future<Output = T>) -> T {
    timeout(limit, work).await.unwrap_or_else(|_| panic!("{what}: not done within {limit:?}"))
}
