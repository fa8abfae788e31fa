//! The records as rules see them. The migrations document their columns.

mod client;
mod discovery;
mod invoice;
mod lead;
mod proposal;
mod streams;
mod tenant;

pub use client::ClientType;
pub(crate) use client::{AccountContact, Client, Roster};
pub(crate) use discovery::{Discovery, TravellerProfile};
pub(crate) use invoice::{Credit, CreditState, Invoice, Money};
pub(crate) use lead::{Lead, Trip};
pub use proposal::ProposalStatus;
pub(crate) use proposal::{Itinerary, Proposal};
pub(crate) use streams::{
    InboxKind, InboxMessage, Notification, NotificationKind, OutboundEvent, TimelineEntry,
};
pub(crate) use tenant::LedgerEntry;
pub use tenant::{Member, Tenant};
