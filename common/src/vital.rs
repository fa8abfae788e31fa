//! Tasks that a program can't do without.

use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use tokio::task::JoinHandle;

/// Spawns a task whose panic ends the program: one that lives on without it would look alive and do nothing. What is
/// under way is repeated by the next process, as after any crash.
pub fn spawn(name: &'static str, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(async move {
        if AssertUnwindSafe(task).catch_unwind().await.is_err() {
            tracing::error!(
                task = name,
                "a task that the program can't do without panicked; the program ends"
            );
            std::process::abort();
        }
    })
}
