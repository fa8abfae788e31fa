//! Waiting for something that other processes bring about.

use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Long enough for anything that is on its way, on a busy machine. Only a failing test waits this long.
pub const PATIENCE: Duration = Duration::from_secs(60);

const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Looks again and again until `look` gives a value. When it doesn't within `within`, panics with `what` was waited
/// for and what the last look saw. A look that has begun by then has [`PATIENCE`] to end.
pub async fn eventually<T>(
    what: &str,
    within: Duration,
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let deadline = Instant::now() + within;
    let mut last = "nothing".to_owned();
    loop {
        match timeout_at(deadline + PATIENCE, look()).await {
            Ok(Ok(found)) => return found,
            Ok(Err(seen)) if Instant::now() >= deadline => {
                panic!("not within {within:?}: {what}; last seen: {seen}")
            }
            Ok(Err(seen)) => last = seen,
            Err(_) => panic!("not within {within:?}: {what}; a look does not end; last seen: {last}"),
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}
