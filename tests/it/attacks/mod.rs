//! Callers that nobody knows, and what they must not be able to do.

mod connections;
mod framing;
mod logs;
