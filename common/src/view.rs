//! Records as the API shows them (specification: Resources and their fields): customer-safe, with every field
//! present and null where nothing is known, but for the few that only exist at times.

mod client;
mod lead;
mod trip;

pub use client::{ClientView, TravelerView};
pub use lead::{BriefView, LeadView, OwnerView};
pub use trip::{ProposalView, TripView};
