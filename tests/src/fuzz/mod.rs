//! Inputs that nobody would write by hand, and what must hold for them.
//!
//! A case is made of its seed alone, so that a failing one can be run again. `make test` runs some thousands of cases of each
//! target with fixed seeds; `make fuzz` runs new ones for as long as it is told.

mod action;
mod batch;
mod http;
mod message;
mod metadata;
mod random;
mod shape;
mod signature;

pub use http::HttpFuzz;

use random::Random;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What is given generated input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The reader of the signature header.
    Signature,
    /// The readers of a batch, in ingest and in the worker.
    Batch,
    /// The reader of a message's metadata, and what splits a bundle by it.
    Metadata,
    /// The readers of the metadata of a records write, of a delivery and of an advisor action.
    OtherMetadata,
    /// The reader of a message's properties and of its MAC.
    Message,
    /// The reader of an advisor action.
    Action,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Signature, Self::Batch, Self::Metadata, Self::OtherMetadata, Self::Message, Self::Action];

    /// Runs the case of a seed. The error says what did not hold; a panic of the code under test is one, too.
    pub fn run(self, seed: u64) -> Result<(), String> {
        let case = || {
            let random = &mut Random::new(seed);
            match self {
                Self::Signature => signature::check(random),
                Self::Batch => batch::check(random),
                Self::Metadata => metadata::check(random),
                Self::OtherMetadata => metadata::check_others(random),
                Self::Message => message::check(random),
                Self::Action => action::check(random),
            }
        };
        let checked = catch_unwind(AssertUnwindSafe(case)).unwrap_or_else(|_| Err("it panicked".to_owned()));
        checked.map_err(|what| format!("{self:?}, seed {seed}: {what}"))
    }
}

/// The error `what` unless `holds`.
fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}
