//! Tasks that a program can't do without.

use futures_util::FutureExt;
use std::io;
use std::panic::AssertUnwindSafe;
use std::thread;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Spawns a task whose panic ends the program: one that lives on without it would look alive and do nothing. What is
/// under way is repeated by the next process, as after any crash.
pub fn spawn(name: &'static str, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(guarded(name, task))
}

/// Runs a task on a thread with a runtime of its own: what it spawns, such as the drivers of its database connections,
/// runs there, too, so that none of it waits for another thread to be woken, and the scheduler of the operating system
/// shares the processors among such tasks. A panic ends the program, as of [`spawn`]. Gives what is ready when it ends.
pub fn spawn_on_thread<F: Future<Output = ()>>(
    name: &'static str,
    task: impl FnOnce() -> F + Send + 'static,
) -> io::Result<oneshot::Receiver<()>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (ending, ended) = oneshot::channel();
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        runtime.block_on(guarded(name, async move { task().await }));
        // Nobody waits any more once the program has given up the drain.
        let _ = ending.send(());
    })?;
    Ok(ended)
}

async fn guarded(name: &'static str, task: impl Future<Output = ()>) {
    if AssertUnwindSafe(task).catch_unwind().await.is_err() {
        tracing::error!(task = name, "a task that the program can't do without panicked; the program ends");
        crate::telemetry::flush();
        std::process::abort();
    }
}
