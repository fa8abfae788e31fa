//! connect-ingest: authenticates, validates, publishes to the queue, and answers.
//!
//! What it never does: write to a table of agency data, hold state that another copy of it would need, or change a
//! body between HTTP and the queue. The only rows it writes are used signatures (`replay_entries`).
//!
//! A request passes, in this order: [`server`] (connection), [`observe`] (metrics and log; what HTTP forbids is refused),
//! [`routes`], a handler,
//! which reads the [`body`], has [`auth`] check it, takes its place ([`limits`]) and its share of what may wait ([`backlog`]), has the signature used up, and hands it to [`submit`] (events) or
//! [`writes`] (records), or answers it from [`reads`].
//! Whatever refuses it does so with a [`error::Refusal`].

pub mod auth;
pub mod background;
pub mod backlog;
pub mod body;
pub(crate) mod body_budget;
pub mod bound;
pub(crate) mod bounded;
pub mod bundles;
pub mod conditions;
pub mod connections;
pub(crate) mod counters;
pub mod docs;
pub mod error;
pub(crate) mod framing;
pub(crate) mod gather;
pub mod handlers;
pub(crate) mod head_timer;
pub mod heavy;
pub(crate) mod http_metrics;
pub(crate) mod lanes;
pub mod limits;
mod linger;
pub mod maintenance;
pub mod observe;
pub mod openapi;
pub mod outage;
pub mod query;
pub mod read_limit;
pub mod reads;
pub mod request;
pub mod route;
pub mod routes;
pub mod server;
pub mod service;
pub mod settings;
pub(crate) mod socket;
pub mod store;
pub(crate) mod strict;
pub mod submit;
pub mod writes;
