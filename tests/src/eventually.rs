//! Waiting for an effect of other processes.

use std::fmt::Debug;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Longest wait for an effect, generous enough for a busy machine: the programs themselves may wait up to a minute before they
/// try again. Only a failing test waits this long.
pub const MAX_WAIT: Duration = Duration::from_secs(180);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Calls `look` repeatedly until it returns a value. Panics when that takes longer than `within`, with `what` and the last
/// error of `look`. A call that has started by then may take [`MAX_WAIT`] to end.
pub async fn eventually<T>(what: &str, within: Duration, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + within;
    let mut last = "nothing".to_owned();
    loop {
        match timeout_at(deadline + MAX_WAIT, look()).await {
            Ok(Ok(found)) => return found,
            Ok(Err(seen)) if Instant::now() >= deadline => {
                panic!("not within {within:?}: {what}; last seen: {seen}")
            }
            Ok(Err(seen)) => last = seen,
            Err(_) => panic!("not within {within:?}: {what}; a check does not end; last seen: {last}"),
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Calls `read` repeatedly until it returns what is wanted, and returns that. Panics as [`eventually`] does, after
/// [`MAX_WAIT`].
pub async fn until<F: Debug>(what: &str, mut read: impl AsyncFnMut() -> F, is_wanted: impl Fn(&F) -> bool) -> F {
    eventually(what, MAX_WAIT, async || {
        let found = read().await;
        if is_wanted(&found) { Ok(found) } else { Err(format!("{found:?}")) }
    })
    .await
}

/// Calls `read` repeatedly until it returns `expected`. Panics as [`until`] does.
pub async fn until_equal<E: Debug, F: Debug + PartialEq<E>>(what: &str, expected: E, read: impl AsyncFnMut() -> F) {
    until(&format!("{what}, {expected:?}"), read, |found| *found == expected).await;
}
