//! What an operator sees and sets (docs/operators.md).

mod connections;
mod dead_letters;
pub(crate) mod doctor;
mod kubernetes;
mod master_key;
mod pooler;
mod ports;
mod roles;
mod schema_version;
mod settings;

/// The programs that run as services.
const SERVICES: [&str; 4] = ["connect-ingest", "connect-worker", "connect-dispatcher", "connect-console"];
