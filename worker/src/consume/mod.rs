//! Consumers: a handler for each queue. They return verdicts; the lane does the broker's part.

mod crm;
mod events;
mod records;

pub use crm::CrmHandler;
pub use events::EventsHandler;
pub use records::RecordsHandler;
