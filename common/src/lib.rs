//! The library that the programs of Connect share: the domain types, the messages on the queues, the broker, the access to
//! the database, and what operators see of every program (settings, logs, metrics, health). It contains no rule about the effect of an
//! event, and no SQL on tables except for the master key's canary, the history of migrations, the counts of the last minutes, and
//! the removal of expired rows.

pub mod activity;
pub mod advisor;
pub mod broker;
pub mod bundle;
pub mod caller;
pub mod causes;
pub mod clock;
pub mod cpu_bound;
pub mod critical_task;
pub mod db;
pub mod egress;
pub mod erasure;
pub mod event;
pub mod health;
pub mod http;
pub mod log_limit;
pub(crate) mod log_writer;
pub mod message;
pub mod metrics;
pub mod model;
pub mod named;
pub mod outage;
pub mod periodic;
pub mod program;
#[cfg(feature = "progress")]
pub mod progress;
pub mod record;
pub mod retention;
pub mod sealed;
pub mod settings;
pub mod shares;
pub mod shutdown;
pub mod signature;
pub mod telemetry;
pub mod tls;
pub mod trace;
pub mod version;
pub mod view;
pub mod write;
