//! The database: pools, the one door to writes, migrations.

mod error;
mod migrate;
mod pool;

pub use error::TxError;
pub use migrate::{MigrateError, migrate};
pub use pool::{Client, Database, PoolSettings, Work};
