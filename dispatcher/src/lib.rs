//! The dispatcher: relays the outbox and delivers signed webhooks.
//!
//! - `relay`: what was committed is handed to lanes, or published, once at least.
//! - `fan_out`: who hears of an event.
//! - `deliver`: what was handed over or comes from the queue is sent, a lane for each subscription, and put on record.
//! - `send`: one signed request to a vetted address.
//! - `schedule`: when to try again.
//!
//! It never writes the CRM's tables, and holds nothing that another copy would need: any number of copies run at once.

pub mod deliver;
pub mod fan_out;
mod gauges;
pub mod relay;
pub mod schedule;
pub mod send;
pub mod service;
pub mod settings;
pub mod store;
