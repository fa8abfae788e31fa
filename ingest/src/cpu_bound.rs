//! Runs work whose time grows with a body, such as hashing and parsing, without delaying other requests.

/// The size from which work on a body may block the thread for too long. For smaller bodies `block_in_place` costs more
/// than the work.
const LARGE: usize = 128 * 1024;

/// Runs `work` on a body of `size` bytes. For a large one the other tasks of this thread move to another thread meanwhile,
/// so that large bodies of one tenant do not delay small batches of others.
pub(crate) fn run_cpu_bound<T>(size: usize, work: impl FnOnce() -> T) -> T {
    if size < LARGE { work() } else { tokio::task::block_in_place(work) }
}
