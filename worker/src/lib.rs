//! The worker: load → decide → persist.
//!
//! `consume` parses messages and returns outcomes, `pipeline` runs the transactions, `store` builds their statements, and
//! `rules` decide on a `state` without any I/O. The worker never sends a webhook: it writes the outbox. `retention` removes what
//! has expired.

mod consume;
mod pipeline;
mod record_body;
mod retention;
pub mod rules;
mod sealed_values;
pub mod service;
pub mod settings;
pub mod state;
pub mod store;
