//! The domain types, which cannot hold an invalid value. No I/O.

mod amount;
mod brief;
mod contact;
mod delivery_state;
mod ids;
mod itinerary;
mod scope;
mod stage;
pub mod text;

pub use amount::hundredths;
pub use brief::{Brief, Budget, Party, TravelDates, is_country, is_currency, parse_date};
pub use contact::{Email, Phone, is_free_mailbox};
pub use delivery_state::DeliveryState;
pub use ids::{ClientId, DiscoveryId, KeyPrefix, LeadId, ProposalId, TenantId, TripId};
pub use itinerary::check_itinerary;
pub use scope::{Scope, Scopes};
pub use stage::Stage;
