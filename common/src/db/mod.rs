//! The database: pools, transactions, sessions apart from the pools, migrations.

mod connect;
mod error;
mod master_key;
mod migrate;
mod pipelined;
mod pool;
mod repeat;
mod session;

pub use connect::{ConnectError, Connected, connect};
pub use error::TxError;
pub use master_key::{MASTER_KEY_STATEMENTS, MasterKeyState, is_verified, verify_master_key};
pub use migrate::{MigrateError, Migrations};
pub use pipelined::{PipelinedTransaction, Query};
pub use pool::{Attempts, Client, Database, PoolSettings, Work, planner_options};
pub use repeat::{ConflictRetries, transact};
pub use session::Session;
