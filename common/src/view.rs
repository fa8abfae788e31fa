//! Records as the API shows them (specification: Resources and their fields): customer-safe, with every field
//! present and null for unknown values, except for a few optional fields.

mod client;
mod lead;
mod trip;

pub use client::{ClientView, TravelerView};
pub use lead::{BriefView, LeadView, OwnerView};
pub use trip::{ProposalView, TripView};
