//! The harness of the end-to-end tests: real programs as child processes, against a real Postgres and RabbitMQ.
//!
//! A test starts a [`World`], which has a database and queues of its own, sends signed requests, and looks at what
//! came of them the way an operator would. Nothing here knows the insides of the programs: settings, routes, logs,
//! `connectctl` and the schema are all it uses.

mod binaries;
mod connectctl;
mod database;
mod described;
mod environment;
mod eventually;
mod http;
mod key;
mod mac;
mod messages;
mod prometheus;
mod queues;
mod ran;
mod services;
mod statements;
mod traffic;
mod url;
mod world;

pub mod event;
pub mod fuzz;
pub mod private;
pub mod program;
pub mod proxy;
pub mod raw;
pub mod receiver;

pub use connectctl::Connectctl;
pub use database::TestDatabase;
pub use event::{Event, event};
pub use eventually::{PATIENCE, eventually};
pub use http::{Answer, Http, HttpError, Outgoing};
pub use key::{ApiKey, EVENTS, RECORDS, now};
pub use messages::{MessageRecorder, Messages};
pub use program::Program;
pub use prometheus::{JOBS, Prometheus, Samples, Series};
pub use queues::{QueuedMessage, Queues};
pub use ran::Ran;
pub use receiver::{Authority, Behaviour, Received, Receiver};
pub use statements::{Flight, StatementRecorder};
pub use traffic::Traffic;
pub use world::{ALL_SCOPES, Proxies, World, WorldBuilder, text};

/// `CONNECT_MASTER_KEY` of all tests: 32 bytes in base64.
pub const MASTER_KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
