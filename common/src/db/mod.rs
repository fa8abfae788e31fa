//! The database: pools, the one door to writes, sessions apart from them, migrations.

mod error;
mod migrate;
mod pool;
mod session;

pub use error::TxError;
pub use migrate::{MigrateError, Migrations};
pub use pool::{Client, Database, PoolSettings, Work};
pub use session::Session;
