//! The harness of the end-to-end tests: real programs as child processes, against a real Postgres and RabbitMQ.
//!
//! A test starts a [`World`] or joins the shared one, sends signed requests, and checks the results the
//! way an operator would. The harness depends on settings, routes, logs, `connectctl`, the schema and the crate `common`,
//! never on the crates of the programs.

mod binaries;
mod connectctl;
mod database;
mod duration;
mod eventually;
mod http;
mod key;
mod mac;
mod mail_server;
mod messages;
mod prometheus;
mod queues;
mod services;
mod statements;
mod threads;
mod url;
mod world;

pub mod api_description;
pub mod browser;
pub mod dedicated_servers;
pub mod event;
pub mod fuzz;
pub mod program;
pub mod proxy;
pub mod raw;
pub mod receiver;
pub mod roles;
pub mod torture;

pub use connectctl::{CommandOutput, Connectctl, words};
pub use database::TestDatabase;
pub use event::{Event, batch, event};
pub use eventually::{MAX_WAIT, eventually, until, until_equal};
pub use http::{HttpClient, HttpError, HttpRequest, HttpResponse};
pub use key::{ApiKey, EVENTS, RECORDS, now};
pub use mail_server::MailServer;
pub use messages::{MessageRecorder, Messages};
pub use program::{Program, send_signal};
pub use prometheus::{CONSOLE_JOB, JOBS, Prometheus, Samples, Series};
pub use queues::{QueuedMessage, Queues};
pub use receiver::{Authority, Behavior, Certificate, ReceivedRequest, Receiver};
pub use statements::StatementRecorder;
pub use world::{
    ALL_SCOPES, BREAK_UNLUCKY_EVENTS, Proxies, UNREACHED_RECEIVER, World, WorldBuilder, slug, text, with_names,
};

/// `CONNECT_MASTER_KEY` of all tests: 32 bytes in base64.
pub const MASTER_KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
