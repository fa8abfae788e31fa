//! Refused requests: why, and how to sign.

pub(crate) mod list;
pub(crate) mod show;
