//! What unauthenticated callers must not be able to do.

mod connections;
mod exhaustion;
mod framing;
mod logs;
mod proxies;
