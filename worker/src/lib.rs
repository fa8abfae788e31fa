//! The worker: load → decide → persist.
//!
//! `consume` reads messages and returns verdicts, `unit` runs a transaction, `store` loads and persists, `rules` decide
//! on a `state` and do no I/O. The worker never sends a webhook: it writes the outbox.

pub mod action;
pub mod consume;
pub mod outbox;
pub mod rules;
pub mod service;
pub mod settings;
pub mod show;
pub mod state;
pub mod store;
pub mod unit;
pub mod write;
