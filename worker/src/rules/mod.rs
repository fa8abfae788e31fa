//! The rules of the specification, as pure functions over a [`TenantState`](crate::state::TenantState): time, ids and enquiry numbers are
//! arguments, and there is no I/O.
//!
//! The rules have three entry points: [`events::apply`], [`records::apply`] for records writes and [`advisor::apply`] for
//! advisor actions. `input` and `refusal` are their vocabulary: what rules are given, and what they refuse. The other modules
//! are rules that the entry points share, one for each subject.

pub(crate) mod advisor;
pub(crate) mod booking;
pub(crate) mod brief;
pub(crate) mod company;
pub(crate) mod contact;
pub(crate) mod credit;
pub(crate) mod discovery;
pub mod events;
pub(crate) mod invoice;
pub(crate) mod lead;
pub(crate) mod money;
pub(crate) mod new_lead;
pub(crate) mod outbound;
pub(crate) mod payload;
pub(crate) mod proposal;
pub mod records;
pub(crate) mod routing;
pub(crate) mod stage;
pub(crate) mod timeline;

mod input;
mod ledger;
mod numbers;
mod refusal;
mod warnings;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod simulation;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use input::Cause;
pub use input::{Context, Event};
pub use numbers::NumberBlock;
pub(crate) use numbers::can_open_lead;
pub(crate) use refusal::WriteError;
pub use refusal::{InternalError, Refusal};
pub(crate) use warnings::Warnings;

use events::EventEffects;
