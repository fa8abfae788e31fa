//! The dispatcher: relays the outbox and delivers signed webhooks.
//!
//! - `relay`: passes committed events on to the lanes, or publishes them, at least once.
//! - `fan_out`: which subscriptions receive an event.
//! - `deliver`: sends deliveries from the relay and from the queue, in a lane for each subscription, and records the outcome.
//! - `send`: sends one signed request to a verified address.
//! - `schedule`: when a delivery is retried.
//! - `conservation`: compares relayed events with their deliveries.
//!
//! It never writes the CRM's tables and holds no state that another copy needs: any number of copies run at once.

mod conservation;
mod deliver;
mod fan_out;
mod gauges;
mod relay;
pub mod schedule;
pub mod send;
pub mod service;
pub mod settings;
pub mod store;
