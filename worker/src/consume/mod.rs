//! Consumers: a handler for each queue. They return verdicts; the lane does the broker's part.

mod events;
mod records;

pub use events::EventsHandler;
pub use records::RecordsHandler;
