//! Consumers: a handler for each queue. They return verdicts; the lane does the broker's part.

mod events;

pub use events::EventsHandler;
