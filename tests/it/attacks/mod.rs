//! What unauthenticated callers must not be able to do.

mod connections;
pub(crate) mod exhaustion;
mod framing;
mod logs;
mod proxies;
