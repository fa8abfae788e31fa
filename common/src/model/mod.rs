//! The domain types, which cannot hold an invalid value. No I/O.

mod brief;
mod contact;
mod delivery_state;
mod domain;
mod ids;
mod number;
mod scope;
mod stage;
pub mod text;

pub use brief::{Brief, Budget, Party, TravelDates, check_itinerary, is_country, is_currency, parse_date};
pub use contact::{Email, Phone, decimal_digits, folded, searchable};
pub use delivery_state::DeliveryState;
pub use domain::{add_mailbox_providers, ascii_domain, is_free_mailbox};
pub use ids::{ClientId, DiscoveryId, KeyPrefix, LeadId, ProposalId, SLOTS, TenantId, TripId};
pub use number::{amount, hundredths, parse_instant, whole};
pub use scope::{Scope, Scopes};
pub use stage::Stage;
