//! The database: connection pools, transactions, single sessions outside of the pools, and migrations.

mod conflict_retries;
mod connect;
mod demotion;
mod error;
mod master_key;
mod migrate;
mod outside_transaction;
mod pipelined;
mod pool;
mod pool_connect;
mod schema_check;
mod session;
mod session_settings;
mod statement;
mod sync_folding;
mod tls;
mod tls_report;

pub use conflict_retries::transact;
pub use connect::{ConnectError, DriverConnection, connect};
pub use demotion::is_read_only;
pub use error::TxError;
pub use master_key::{
    MASTER_KEY_STATEMENTS, MasterKeyState, is_verified, read_master_key_state, rewrap_canary, verify_master_key,
};
pub use migrate::{DifferentSchema, MigrateError, Migration, Migrations, UnusableDatabase, missing_migrations};
pub use pipelined::{PipelinedTransaction, Query};
pub use pool::{Client, Database, PoolSettings, RetryableTransaction, TransactionBody};
pub use schema_check::{SCHEMA_STATEMENTS, SchemaRefusal};
pub(crate) use schema_check::{until_refused, verify_schema};
pub use session::{DatabaseSession, DatabaseSessionConfig, SessionWork, run_session};
pub use session_settings::{
    WrongSetting, keeps_prepared_statements, missing_behind_pooler, planner_options, role_settings,
};
pub use statement::{Sql, column};
pub use tls_report::{tls_files, tls_reports};
