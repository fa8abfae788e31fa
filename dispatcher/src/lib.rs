//! The dispatcher: fans out the events of the outbox, and delivers signed webhooks.
//!
//! A delivery is a row, and a subscription is a numbered log of deliveries. A webhook passes these rooms, in this order:
//!
//! - `outbox`: which slots have events to fan out.
//! - `fan_out` (in `store`): events become deliveries of the subscriptions that want them.
//! - `due`: which deliveries are read and attempted next, tenant by tenant.
//! - `send`: sends one signed request to a verified address, and decides what follows.
//! - `record`: writes the results.
//!
//! `dispatch` is the loop that they meet in, and `slots` are the tenants that this program works for. `schedule` says when a
//! delivery is retried, `notices` tells of dead-lettered ones, and `replay_jobs` makes many deliveries pending again.
//!
//! It never writes the CRM's tables. Any number of copies run at once: each tenant belongs to a slot, and each slot to one copy.

mod dispatch;
mod due;
mod gauges;
mod notices;
mod outbox;
mod record;
mod replay_jobs;
pub mod schedule;
pub mod send;
pub mod service;
pub mod settings;
mod slots;
pub mod store;
