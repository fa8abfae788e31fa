//! connect-ingest: authenticates and validates requests, publishes them to RabbitMQ, and responds.
//!
//! It never writes tenants' records, holds no state that another copy of it would need, and never changes a body between HTTP
//! and the queue. It writes only replay entries (`replay_entries`), reports of refused tenants (`intake_pressure`), uses and counts
//! of keys, and why requests were refused.
//!
//! A request passes, in this order: `common::http` (connections), `http` (observability, violations of HTTP, body), `routes`, and
//! `handlers`. A handler lets [`auth`] verify the request, takes its permits and shares from
//! `limits`, and uses up the signature in `replay`. It then publishes the request with `publish`, or serves it with `record_reads`.
//! Every refusal is a `refusal::Refusal`. [`store`] holds all SQL and depends on none of these but `http::idempotency_key`.

pub mod auth;
pub(crate) mod background;
pub(crate) mod bounded_map;
pub(crate) mod counters;
pub mod docs;
pub(crate) mod group_queue;
pub(crate) mod handlers;
pub(crate) mod http;
pub(crate) mod limits;
pub mod overload;
pub(crate) mod publish;
pub(crate) mod read_pools;
pub(crate) mod record_reads;
pub(crate) mod refusal;
pub(crate) mod refused;
pub(crate) mod replay;
pub(crate) mod routes;
pub mod service;
pub mod settings;
pub mod store;
