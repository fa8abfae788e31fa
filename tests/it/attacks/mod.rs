//! Callers that nobody knows, and what they must not be able to do.

mod connections;
mod exhaustion;
mod framing;
mod logs;
mod memory;
mod proxies;
