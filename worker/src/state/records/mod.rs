//! The records as rules see them. Their columns are described in the migrations.

mod agency;
mod client;
mod discovery;
mod invoice;
mod lead;
mod proposal;
mod streams;

pub use agency::{LedgerEntry, Member, Tenant};
pub use client::{AccountContact, Client, ClientType, Roster};
pub use discovery::{Discovery, TravellerProfile};
pub use invoice::{Credit, CreditState, Invoice, Money};
pub use lead::{Lead, Trip};
pub use proposal::{Itinerary, Proposal, ProposalStatus};
pub use streams::{InboxKind, InboxMessage, Notification, NotificationKind, OutboundEvent, TimelineEntry};
