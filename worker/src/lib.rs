//! The worker: load → decide → persist.
//!
//! `consume` reads messages and returns verdicts, `pipeline` runs the transactions, `store` builds their statements, and
//! `rules` decide on a `state` and do no I/O. The worker never sends a webhook: it writes the outbox.

mod consume;
mod pipeline;
pub mod rules;
pub mod service;
pub mod settings;
mod show;
pub mod state;
pub mod store;
