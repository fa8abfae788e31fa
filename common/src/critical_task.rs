//! Critical tasks: a panic in one ends the process.

use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::{io, thread};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Spawns a task whose panic aborts the process, because a program without it would seem alive and do nothing. The next
/// process repeats the work under way, as after any crash.
pub fn spawn(name: &'static str, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(guarded(name, task))
}

/// Runs a task on a thread with its own runtime. Tasks that it spawns, such as the drivers of its database connections, run
/// on that thread too, so that none waits for another thread to wake up, and the operating system's scheduler shares the
/// processors among such threads. A panic aborts the process, as in [`spawn`]. The receiver resolves when the task has ended.
pub fn spawn_on_thread<F: Future<Output = ()>>(
    name: &'static str, task: impl FnOnce() -> F + Send + 'static,
) -> io::Result<oneshot::Receiver<()>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (ending, ended) = oneshot::channel();
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        runtime.block_on(guarded(name, async move { task().await }));
        // Sending fails if the drain has timed out, because the receiver was dropped then.
        let _ = ending.send(());
    })?;
    Ok(ended)
}

async fn guarded(name: &'static str, task: impl Future<Output = ()>) {
    if AssertUnwindSafe(task).catch_unwind().await.is_err() {
        tracing::error!(task = name, "a critical task panicked; the process aborts");
        crate::telemetry::flush();
        std::process::abort();
    }
}
