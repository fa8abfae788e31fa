//! Generated inputs, and the properties that must hold for them.
//!
//! A case depends on its seed only, so that a failing one can be repeated. `make test` runs some thousands of cases of each
//! target with fixed seeds; `make fuzz` runs new ones for a given time.

mod action;
mod batch;
mod http;
mod message;
mod metadata;
pub(crate) mod random;
mod request_form;
mod signature;

pub use http::HttpFuzz;

use random::Random;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A parser that gets generated input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FuzzTarget {
    /// The parser of the signature header.
    Signature,
    /// The parsers of a batch, in ingest and in the worker.
    Batch,
    /// The parser of a bundle's metadata, and the split of its body and of its reply.
    Metadata,
    /// The parsers of the metadata of a batch, of a records write, of a delivery and of an advisor action.
    OtherMetadata,
    /// The parser of a message's properties and the check of its MAC.
    Message,
    /// The parser of an advisor action.
    Action,
}

impl FuzzTarget {
    /// All targets, in the order in which they run.
    pub const ALL: [Self; 6] =
        [Self::Signature, Self::Batch, Self::Metadata, Self::OtherMetadata, Self::Message, Self::Action];

    /// Runs the case of a seed. The error says which property failed; a panic of the code under test counts as one.
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

/// Returns the error `what` unless `holds`.
fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}
