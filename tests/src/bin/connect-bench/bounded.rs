//! Bounds on waits: what does not end in time ends the benchmark with a line that says what was waited for.

use std::time::Duration;
use tokio::time::timeout;

/// Longest wait for a single step such as a request, a statement or a message.
pub(crate) const STEP: Duration = Duration::from_secs(60);

/// Does `work`, which may take [`STEP`]; panics with `what` when it takes longer.
pub(crate) async fn bounded<T>(what: &str, work: impl Future<Output = T>) -> T {
    within(STEP, what, work).await
}

/// Does `work`, which may take `limit`; panics with `what` when it takes longer.
pub(crate) async fn within<T>(limit: Duration, what: &str, work: impl Future<Output = T>) -> T {
    timeout(limit, work).await.unwrap_or_else(|_| panic!("{what}: not done within {limit:?}"))
}
