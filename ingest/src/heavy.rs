//! Work that grows with a body: hashing and parsing.

/// Bytes from which on work is kept from holding up other requests. Below, moving it would cost more than it takes.
const LARGE: usize = 128 * 1024;

/// Runs `work` on a body of `size` bytes. For a large one the other tasks of this thread are handed to another thread
/// meanwhile, so that one agency's megabytes don't add to the latency of everybody else's small batches.
pub fn work_on<T>(size: usize, work: impl FnOnce() -> T) -> T {
    if size < LARGE { work() } else { tokio::task::block_in_place(work) }
}
