//! End-to-end tests, a directory or file a subject. Each test has a world of its own.

mod advisor;
mod attacks;
mod auth;
mod bundles;
mod burst;
mod concurrency;
mod connectctl;
mod drain;
mod envelope;
mod equivalence;
mod events;
mod examples;
mod failures;
mod faults;
mod limits;
mod locked;
mod monitoring;
mod openapi;
mod operator;
mod pipeline;
mod records;
mod results;
mod schema;
mod traces;
mod vectors;
mod webhooks;
