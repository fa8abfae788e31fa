//! The database: pools, the one door to writes, sessions apart from them, migrations.

mod connect;
mod error;
mod migrate;
mod pipelined;
mod pool;
mod session;

pub use connect::{Connected, connect};
pub use error::TxError;
pub use migrate::{MigrateError, Migrations};
pub use pipelined::{PipelinedTransaction, Query};
pub use pool::{Attempts, Client, Database, PoolSettings, Work};
pub use session::Session;
