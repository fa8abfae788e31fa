//! Work whose time grows with a body, such as hashing and parsing, without a delay of other requests.

use tokio::runtime::{Handle, RuntimeFlavor};

/// The size from which work on a body may block the thread for too long. For smaller bodies `block_in_place` costs more
/// than the work.
const LARGE: usize = 128 * 1024;

/// Runs `work` on a body of `size` bytes. For a large one the other tasks of this thread move to another thread meanwhile,
/// so that large bodies of one tenant do not delay small batches of others.
pub fn run_cpu_bound<T>(size: usize, work: impl FnOnce() -> T) -> T {
    // A runtime of a single thread has none to move them to.
    let has_threads =
        || Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    if size >= LARGE && has_threads() { tokio::task::block_in_place(work) } else { work() }
}
