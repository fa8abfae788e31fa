//! What the programs of Connect share. It knows the domain's nouns, what travels on the queues, the broker,
//! the database's door and the operator's surface (settings, logs, metrics, health); it holds no rule of
//! what an event does and no SQL of a table.

pub mod advisor;
pub mod broker;
pub mod bundle;
pub mod caller;
pub mod clock;
pub mod db;
pub mod egress;
pub mod event;
pub mod health;
pub mod log_limit;
pub(crate) mod log_writer;
pub mod message;
pub mod metrics;
pub mod model;
pub mod program;
#[cfg(feature = "progress")]
pub mod progress;
pub mod record;
pub mod sealed;
pub mod settings;
pub mod shutdown;
pub mod signature;
pub mod telemetry;
pub mod trace;
pub mod view;
pub mod vital;
pub mod write;
